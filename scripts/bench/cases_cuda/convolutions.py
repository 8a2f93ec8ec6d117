"""A convolutional model with wrong logits (torch's injection switch)."""

import torch
from torch._inductor import config

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"


class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = torch.nn.Conv2d(c, c, 3, padding=1)
        self.bn = torch.nn.BatchNorm2d(c)

    def forward(self, x):
        return x + torch.relu(self.bn(self.conv(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = torch.nn.Sequential(*[Block(16) for _ in range(3)])
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


torch.manual_seed(0)
net = Net().cuda().eval()
x = torch.randn(4, 3, 32, 32, device="cuda")
with torch.no_grad():
    expected = net(x)
    got = torch.compile(net)(x)
torch.testing.assert_close(got, expected)
