"""One training step of a decoder with rotary embeddings, RMSNorm, SwiGLU and a pooled memory; one gradient is wrong."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    def __init__(self, width, heads, pooled):
        super().__init__()
        self.heads, self.pooled = heads, pooled
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (
            nn.Linear(width, 2 * width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, cos, sin):
        h = self.first(x)
        q, k, v = (
            rotate(self.split(self.q(h)), cos, sin),
            rotate(self.split(self.k(h)), cos, sin),
            self.split(self.v(h)),
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        h = self.second(x)
        if self.pooled:
            h = h + F.avg_pool2d(h, 3, 2, ceil_mode=True).mean((1, 2), keepdim=True)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, words=50, width=16, depth=6, heads=2):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(words, width), nn.RMSNorm(width), nn.Linear(width, words)
        self.blocks = nn.ModuleList(Block(width, heads, at == 2) for at in range(depth))
        angles = torch.outer(torch.arange(12.0), 0.5 ** torch.arange(width / heads / 2))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


torch.manual_seed(0)
model = Decoder()
other = copy.deepcopy(model)
tokens, target = torch.randint(0, 50, (4, 12)), torch.randint(0, 50, (4, 12))
for net in (model, torch.compile(other)):
    F.cross_entropy(net(tokens).flatten(0, 1), target.flatten()).backward()
right, compiled = ([parameter.grad for parameter in net.parameters()] for net in (model, other))
torch.testing.assert_close(compiled, right, rtol=1e-3, atol=1e-5)
