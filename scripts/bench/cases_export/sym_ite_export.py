"""torch.sym_ite of a dynamic size fails in export."""

import torch


class Padded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(6, 4)

    def forward(self, x):
        hidden = torch.relu(self.project(x))
        factor = torch.sym_ite(x.shape[0] > 5, x.shape[0], 3)
        return hidden.sum(0) / factor


torch.manual_seed(0)
batch = torch.export.Dim("batch", min=1, max=64)
exported = torch.export.export(Padded(), (torch.randn(4, 6),), dynamic_shapes=({0: batch},))
print(exported.module()(torch.randn(7, 6)))
