"""One training step of a transformer encoder; a ReLU in its last but one block comes out wrong (torch's own switch)."""

import copy

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Block(nn.Module):
    def __init__(self, width, heads, activation):
        super().__init__()
        self.heads, self.activation = heads, activation
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(self.activation(self.up(self.second(x))))


class Encoder(nn.Module):
    def __init__(self, words=50, width=16, depth=6):
        super().__init__()
        self.embed, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(12, width) * 0.02)
        self.blocks = nn.ModuleList(
            Block(width, 2, torch.relu if at == depth - 2 else nn.functional.gelu) for at in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embed(tokens) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


torch.manual_seed(0)
model = Encoder()
other = copy.deepcopy(model)
tokens, target = torch.randint(0, 50, (4, 12)), torch.randint(0, 50, (4, 12))
losses = []
for net in (model, torch.compile(other)):
    loss = nn.functional.cross_entropy(net(tokens).flatten(0, 1), target.flatten())
    loss.backward()
    losses.append(loss.detach())
torch.testing.assert_close(losses[1], losses[0])
