"""A feature pyramid that compiles with static shapes only.

kind:   compile-error
layer:  inductor (only with dynamic=True)
source: https://github.com/pytorch/pytorch/issues/185575 (area resize with symbolic sizes)
run:    python examples/dynamic_shape_error.py
seen:   torch 2.13.0, CPU: InductorError: LoweringException: TypeError: cannot determine truth value of Relational,
        exit 1; dynamic=False passes
"""

import torch
from torch import nn


class Pyramid(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.fine = nn.Conv2d(3, channels, 3, padding=1)
        self.coarse = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.up = nn.Upsample(scale_factor=2, mode="area")
        self.out = nn.Conv2d(channels, 1, 1)

    def forward(self, image):
        fine = torch.relu(self.fine(image))
        coarse = torch.relu(self.coarse(fine))
        return self.out(self.up(coarse)).sigmoid()


def main():
    torch.manual_seed(0)
    model = Pyramid().eval()
    image = torch.randn(1, 3, 30, 38)
    with torch.no_grad():
        expected = model(image)
        actual = torch.compile(model, dynamic=True)(image)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
