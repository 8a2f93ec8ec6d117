"""run_decompositions fails: two buffers share memory, and one is written."""

import torch


class Memory(torch.nn.Module):
    def __init__(self):
        super().__init__()
        cells = torch.randn(12, 6)
        self.register_buffer("cells", cells)
        self.register_buffer("even", cells[::2])
        self.project = torch.nn.Linear(6, 6)

    def forward(self, x):
        query = torch.relu(self.project(x))
        self.cells.add_(0.1)
        return (query @ self.even.T).softmax(-1)


torch.manual_seed(0)
exported = torch.export.export(Memory().eval(), (torch.randn(4, 6),))
decomposed = exported.run_decompositions()
print(decomposed.module()(torch.randn(4, 6)).shape)
