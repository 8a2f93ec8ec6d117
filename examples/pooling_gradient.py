"""Pooling with overhanging windows: the compiled gradient of the last row and column is too small.

kind:   accuracy (gradient only; the forward is right)
layer:  inductor
source: https://github.com/pytorch/pytorch/issues/198119 (avg_pool2d with ceil_mode divides by the whole window)
run:    python examples/pooling_gradient.py
seen:   torch 2.7.1 to 2.15.0, CPU: AssertionError from assert_close on the image's gradient, exit 1
"""

import torch
from torch import nn


class Thumbnail(nn.Module):
    """Shrinks an image to about half its size, and keeps the rest at the border."""

    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool2d(2, ceil_mode=True)

    def forward(self, image):
        return torch.tanh(self.pool(image * 0.5 + 0.1))


def gradient(model):
    torch.manual_seed(0)
    image = torch.rand(1, 2, 7, 7, requires_grad=True)
    model(image).sum().backward()
    return image.grad


def main():
    model = Thumbnail()
    torch.testing.assert_close(gradient(torch.compile(model)), gradient(model))


if __name__ == "__main__":
    main()
