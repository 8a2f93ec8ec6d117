"""One training step of a small U-Net; the gradient of one pool is wrong."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


def double(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.GroupNorm(4, cout),
        nn.SiLU(),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False),
        nn.GroupNorm(4, cout),
        nn.SiLU(),
    )


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.inc = double(3, width)
        self.down1, self.down2 = double(width, 2 * width), double(2 * width, 4 * width)
        self.mid = double(4 * width, 4 * width)
        self.up2, self.up1 = double(8 * width, 2 * width), double(4 * width, width)
        self.up0 = double(2 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        a = self.inc(x)
        b = self.down1(F.max_pool2d(a, 2, ceil_mode=True))
        c = self.down2(F.avg_pool2d(b, 3, 2, ceil_mode=True))
        d = self.mid(F.max_pool2d(c, 2))
        y = F.interpolate(d, size=c.shape[2:], mode="nearest")
        y = self.up2(torch.cat([y, c], 1))
        y = F.interpolate(y, size=b.shape[2:], mode="nearest")
        y = self.up1(torch.cat([y, b], 1))
        y = F.interpolate(y, size=a.shape[2:], mode="nearest")
        y = self.up0(torch.cat([y, a], 1))
        return self.head(y)


torch.manual_seed(0)
model = UNet()
other = copy.deepcopy(model)
x, target = torch.randn(2, 3, 28, 28), torch.randint(0, 2, (2, 28, 28))
for net in (model, torch.compile(other)):
    loss = F.cross_entropy(net(x), target)
    loss.backward()
right, compiled = ([parameter.grad for parameter in net.parameters()] for net in (model, other))
torch.testing.assert_close(compiled, right, rtol=1e-3, atol=1e-5)
