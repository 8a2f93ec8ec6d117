"""The export of a model that packs sequences into a jagged tensor."""

import torch


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(6, 4)

    def forward(self, first, second):
        packed = torch.nested.nested_tensor([first, second], layout=torch.jagged)
        hidden = torch.relu(self.project(packed))
        return hidden.values().mean(0)


torch.manual_seed(0)
model = Encoder().eval()
exported = torch.export.export(model, (torch.randn(3, 6), torch.randn(5, 6)))
print(exported.module()(torch.randn(3, 6), torch.randn(5, 6)))
