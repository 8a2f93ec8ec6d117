"""The Jacobian of a model that was exported: run_decompositions reads a tensor without storage."""

import torch


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 8)
        self.second = torch.nn.Linear(8, 3)

    def velocity(self, position):
        return self.second(torch.sin(self.first(position)))

    def forward(self, position):
        jacobian = torch.func.jacrev(self.velocity)(position)
        return jacobian.diagonal().sum() + position.norm()


torch.manual_seed(0)
model = Field().eval()
position = torch.randn(3)
exported = torch.export.export(model, (position,))
decomposed = exported.run_decompositions()
torch.testing.assert_close(decomposed.module()(position), model(position))
