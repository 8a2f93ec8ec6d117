"""A network of about 500 operators; one in the middle does not compile: an accumulating index_put into one bin.

The bug is https://github.com/pytorch/pytorch/issues/160391, seen on torch 2.13.0 with at least two threads.
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        hidden = torch.tanh(self.up(self.norm(x)))
        return x + self.down(hidden * torch.sigmoid(hidden))


class Net(nn.Module):
    def __init__(self, width=8, depth=35):
        super().__init__()
        self.before = nn.ModuleList(Block(width) for _ in range(depth))
        self.after = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x, bucket):
        for block in self.before:
            x = block(x)
        total = torch.zeros(1).index_put((bucket,), torch.sigmoid(x.mean(-1)), accumulate=True)
        x = x * total
        for block in self.after:
            x = block(x)
        return x


torch.set_num_threads(2)
torch.manual_seed(0)
model = Net().eval()
with torch.no_grad():
    torch.compile(model)(torch.randn(5, 8), torch.zeros(5, dtype=torch.int64))
