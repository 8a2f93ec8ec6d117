"""A model that returns constants beside a tensor cannot be loaded again."""

import io

import torch


class Tagged(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(6, 4)

    def forward(self, x):
        hidden = torch.relu(self.project(x))
        return {"hidden": hidden, "kind": "relu", "dropped": None, "training": True, "scale": 1.5}


torch.manual_seed(0)
exported = torch.export.export(Tagged(), (torch.randn(4, 6),))
file = io.BytesIO()
torch.export.save(exported, file)
file.seek(0)
loaded = torch.export.load(file)
print(loaded.module()(torch.randn(4, 6))["hidden"].shape)
