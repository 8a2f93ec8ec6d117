"""A convolutional network of about 100 operators that compiles with static shapes only.

The bug is https://github.com/pytorch/pytorch/issues/185575 (area resize with symbolic sizes), seen on torch 2.13.0.
"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, channels=4, depth=14):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth))
        self.coarse = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.up = nn.Upsample(scale_factor=2, mode="area")
        self.out = nn.Conv2d(channels, 1, 1)

    def forward(self, image):
        x = self.stem(image)
        for layer in self.layers:
            x = x + torch.tanh(layer(x)) * torch.sigmoid(x)
        return self.out(self.up(torch.relu(self.coarse(x)))).sigmoid()


torch.manual_seed(0)
model = Net().eval()
with torch.no_grad():
    torch.compile(model, dynamic=True)(torch.randn(1, 3, 30, 38))
