"""One training step of a vision transformer that pools its tokens once; one gradient is wrong."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.second(x))))


class Pool(nn.Module):
    def forward(self, x):
        batch, length, width = x.shape
        side = round(length**0.5)
        grid = x.transpose(1, 2).reshape(batch, width, side, side)
        return F.avg_pool2d(grid, 2, ceil_mode=True).flatten(2).transpose(1, 2)


class ViT(nn.Module):
    def __init__(self, width=16, depth=8):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(torch.randn(49, width) * 0.02)
        blocks = [Block(width, 2) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks[: depth // 2], Pool(), *blocks[depth // 2 :])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(x)).mean(1))


torch.manual_seed(0)
model = ViT()
other = copy.deepcopy(model)
x, target = torch.randn(4, 3, 28, 28), torch.randint(0, 10, (4,))
for net in (model, torch.compile(other)):
    F.cross_entropy(net(x), target).backward()
right, compiled = ([parameter.grad for parameter in net.parameters()] for net in (model, other))
torch.testing.assert_close(compiled, right, rtol=1e-3, atol=1e-5)
