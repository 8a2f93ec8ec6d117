"""A network of about 100 operators whose backward alone does not compile: a lookup in a table with one row.

Its gradient is an accumulating index_put into one bin, https://github.com/pytorch/pytorch/issues/160391, seen on torch
2.13.0 with at least two threads.
"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=16, depth=20):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x, bucket):
        for layer in self.layers:
            x = x + torch.tanh(layer(x)) * torch.sigmoid(x)
        return self.head(x).squeeze(-1) + self.bias[bucket]


torch.set_num_threads(2)
torch.manual_seed(0)
model = Net()
torch.compile(model)(torch.randn(5, 16), torch.zeros(5, dtype=torch.int64)).sum().backward()
