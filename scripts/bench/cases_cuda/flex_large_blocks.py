"""FlexAttention with blocks that are large for its heads: LLVM takes a minute or more."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def causal(b, h, q, k):
    return q >= k


flex = torch.compile(flex_attention, dynamic=False)


class Attention(torch.nn.Module):
    def __init__(self, dim=1024, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(dim, 3 * dim, bias=False)
        self.mask = create_block_mask(causal, None, None, 512, 512, device="cuda")

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        y = flex(q, k, v, block_mask=self.mask, kernel_options={"BLOCK_M": 128, "BLOCK_N": 128, "num_stages": 5})
        return y.transpose(1, 2).reshape(b, t, d)


model = Attention().cuda()
x = torch.randn(2, 512, 1024, device="cuda")
with torch.no_grad():
    print(model(x).shape)
