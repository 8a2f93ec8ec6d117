"""run_decompositions fails: a branch of torch.cond makes a constant tensor (pytorch/pytorch#180354)."""

import torch


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = torch.nn.Linear(6, 6)
        self.leave = torch.nn.Linear(6, 3)

    def forward(self, x):
        hidden = torch.relu(self.enter(x))
        scaled = torch.cond(hidden.sum() > 0, self.louder, self.softer, (hidden,))
        return self.leave(torch.tanh(scaled))

    def louder(self, hidden):
        return hidden * torch.tensor(2.0)

    def softer(self, hidden):
        return hidden * 0.5


model = Gate().eval()
exported = torch.export.export(model, (torch.randn(4, 6),))
decomposed = exported.run_decompositions()
print(decomposed.module()(torch.randn(4, 6)).shape)
