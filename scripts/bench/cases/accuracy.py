"""A network of about 100 operators with a wrong result: one of them is a relu (torch's own switch makes it wrong)."""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Net(nn.Module):
    def __init__(self, width=16, depth=20):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for at, layer in enumerate(self.layers):
            hidden = layer(x)
            x = x + (torch.relu(hidden) if at == len(self.layers) // 2 else torch.tanh(hidden)) * torch.sigmoid(x)
        return self.head(x)


torch.manual_seed(0)
model = Net().eval()
x = torch.randn(8, 16)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model)(x), model(x))
