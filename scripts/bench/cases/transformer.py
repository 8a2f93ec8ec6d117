"""A transformer of about 200 operators; a relu in the last block does not compile (torch's own switch)."""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Block(nn.Module):
    def __init__(self, width, heads, activation):
        super().__init__()
        self.heads, self.activation = heads, activation
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        hidden = self.first(x)
        query, key, value = (self.split(project(hidden)) for project in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        mixed = torch.softmax(scores, -1) @ value
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(self.activation(self.up(self.second(x))))


class Net(nn.Module):
    def __init__(self, width=16, depth=7):
        super().__init__()
        plain = [Block(width, 2, torch.tanh) for _ in range(depth - 1)]
        self.blocks = nn.ModuleList([*plain, Block(width, 2, torch.relu)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


torch.manual_seed(0)
model = Net().eval()
with torch.no_grad():
    torch.compile(model)(torch.randn(2, 6, 16))
