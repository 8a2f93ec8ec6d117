"""A wrong lowering among some thirty operators: values of `sigmoid` come out too large."""

import torch
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
right = lowerings[aten.sigmoid.default]


def wrong(x):
    return lowerings[aten.mul.Tensor](right(x), 1.5)


lowerings[aten.sigmoid.default] = wrong


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.layer_norm(x + torch.tanh(layer(x)), (16,))
        gate = torch.sigmoid(x.mean(-1, keepdim=True))
        return torch.cos(x * gate).sum(-1) + x.amax(-1)


torch.manual_seed(0)
net, x = Net().eval(), torch.randn(8, 16)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(net)(x), net(x))
