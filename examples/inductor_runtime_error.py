"""A custom operator whose output has other strides than Inductor was promised.

kind:   runtime-error
layer:  user (the fake kernel lies; Inductor is the first to notice)
source: planted; the fake kernel promises the input's strides, the real kernel returns a contiguous tensor
run:    python examples/inductor_runtime_error.py
seen:   torch 2.13.0, CPU: AssertionError: expected size 8==8, stride 32==1 at dim=0 ..., raised by the compiled
        module when it runs (compiling succeeds), exit 1
"""

import torch
from torch import nn


@torch.library.custom_op("examples::whiten", mutates_args=())
def whiten(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(0, keepdim=True)
    return (centred / (x.std(0, keepdim=True) + 1e-5)).contiguous()


@whiten.register_fake
def _(x):
    return torch.empty_like(x)


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.out = nn.Linear(width, 4)

    def forward(self, x):
        tokens = torch.sigmoid(self.mix(x.t()))
        return self.out(torch.relu(whiten(tokens.t())))


def main():
    torch.manual_seed(0)
    model = Encoder()
    x = torch.randn(8, 32)
    with torch.no_grad():
        expected = model(x)
        actual = torch.compile(model)(x)
    torch.testing.assert_close(actual, expected)


if __name__ == "__main__":
    main()
