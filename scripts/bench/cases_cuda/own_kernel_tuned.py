"""An autotuned Triton kernel of the user's in a model with a wrong activation (torch's injection switch)."""

import torch
import triton
import triton.language as tl
from torch._inductor import config

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256}, num_warps=8)], key=["n"])
@triton.jit
def add_kernel(x, y, out, n, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask)
    tl.store(out + at, total.to(DTYPE), mask=mask)


def added(x, y):
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel(), tl.float32)
    return out


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        return added(self.down(torch.relu(self.up(x))), x)


torch.manual_seed(0)
model = Block().cuda()
x = torch.randn(16, 32, device="cuda")
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model)(x), model(x), rtol=1e-3, atol=1e-3)
