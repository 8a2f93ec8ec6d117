"""A Triton kernel of the user's in a compiled function, and a wrong activation beside it (torch's injection switch)."""

import torch
import triton
import triton.language as tl
from torch._inductor import config

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"


@triton.jit
def scale_kernel(x, out, scale, n, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, (tl.load(x + at, mask=mask) * scale).to(DTYPE), mask=mask)


def scaled(x, scale):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 256),)](x, out, scale, x.numel(), DTYPE=tl.float32, BLOCK=256, num_warps=2)
    return out


def model(x, w):
    h = torch.relu(scaled(x @ w, 0.5))
    return scaled(h, 3.0).sum(-1)


torch.manual_seed(0)
x, w = torch.randn(64, 32, device="cuda"), torch.randn(32, 48, device="cuda")
got, expected = torch.compile(model)(x, w), model(x, w)
torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
