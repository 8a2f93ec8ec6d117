"""The exported force of a potential differs from the model's."""

import torch


class Force(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 8)
        self.second = torch.nn.Linear(8, 1)

    def potential(self, position):
        return self.second(torch.tanh(self.first(position))).sum()

    def forward(self, position):
        return -torch.func.grad(self.potential)(position)


torch.manual_seed(0)
model = Force().eval()
position = torch.randn(5, 3)
exported = torch.export.export(model, (position,))
torch.testing.assert_close(exported.module()(position), model(position))
