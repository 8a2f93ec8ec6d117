"""A float32 island inside autocast: the compiled backward computes its gradient in bfloat16.

kind:   accuracy (gradient only; the forward is right)
layer:  aot
source: https://github.com/pytorch/pytorch/issues/179804 (backward forgets autocast(enabled=False))
run:    python examples/aot_backward_accuracy.py
seen:   torch 2.13.0, CPU: AssertionError from assert_close on the weight's gradient, 0.4 % off, exit 1
"""

import torch
from torch import nn


class Router(nn.Module):
    """Mixture-of-experts routing: the logits are kept in float32."""

    def __init__(self, width=64, experts=64):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return x.float() @ self.gate.weight.float().t()


def gradient(model, forward, x):
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = forward(x)
    logits.sum().backward()
    return model.gate.weight.grad.clone()


def main():
    torch.manual_seed(0)
    model = Router()
    x = torch.randn(4, 64, dtype=torch.bfloat16, requires_grad=True)
    expected = gradient(model, model, x)
    actual = gradient(model, torch.compile(model, backend="aot_eager"), x)
    torch.testing.assert_close(actual, expected)


if __name__ == "__main__":
    main()
