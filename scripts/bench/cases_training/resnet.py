"""One training step of a ResNet-D (average pooling in the shortcuts); the gradient of one pool is wrong."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.conv2, self.norm2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.down = None
        if stride > 1 or cin != cout:
            self.down = nn.Sequential(
                nn.AvgPool2d(2, stride, ceil_mode=True) if stride > 1 else nn.Identity(),
                nn.Conv2d(cin, cout, 1, bias=False),
                nn.BatchNorm2d(cout),
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class ResNet(nn.Module):
    def __init__(self, width=8, blocks=(3, 4, 4, 3), strides=(1, 2, 1, 1)):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        layers, cin = [], width
        for stage, (count, stride) in enumerate(zip(blocks, strides, strict=True)):
            for at in range(count):
                layers.append(Block(cin, width * 2 ** min(stage, 2), stride if at == 0 else 1))
                cin = width * 2 ** min(stage, 2)
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(cin, 10)

    def forward(self, x):
        return self.head(self.layers(self.stem(x)).mean((2, 3)))


torch.manual_seed(0)
model = ResNet()
other = copy.deepcopy(model)
x, target = torch.randn(4, 3, 15, 15), torch.randint(0, 10, (4,))
for net in (model, torch.compile(other)):
    F.cross_entropy(net(x), target).backward()
right, compiled = ([parameter.grad for parameter in net.parameters()] for net in (model, other))
torch.testing.assert_close(compiled, right, rtol=1e-2, atol=1e-4)
