"""A network of about 170 operators, four of which a pass over the graph refuses when they meet.

The pass is the user's own: PyTorch's minifier has no way to take it along.
"""

import torch
import torch._inductor.config
from torch import nn

aten = torch.ops.aten
BAD = {aten.sin.default, aten.erf.default, aten.atan.default, aten.asinh.default}


def check(graph):
    if {node.target for node in graph.nodes} >= BAD:
        raise RuntimeError("these operators do not go together")


torch._inductor.config.post_grad_custom_post_pass = check


class Block(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.activation = activation

    def forward(self, x):
        hidden = self.activation(self.up(self.norm(x)))
        return x + self.down(hidden * torch.sigmoid(hidden))


class Net(nn.Module):
    def __init__(self, width=16, depth=24):
        super().__init__()
        special = {3: torch.sin, 9: torch.erf, 14: torch.atan, 20: torch.asinh}
        self.blocks = nn.ModuleList(Block(width, special.get(at, torch.tanh)) for at in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


torch.manual_seed(0)
model = Net().eval()
with torch.no_grad():
    torch.compile(model)(torch.randn(4, 16))
