"""A layer picked from a list by the batch's size: Dynamo fails before there is a graph.

kind:   dynamo-error
layer:  dynamo (no graph, so the bundle is script-level)
source: https://github.com/pytorch/pytorch/issues/196285 (list.pop with a symbolic index)
run:    python examples/dynamo_error.py
seen:   torch 2.13.0, CPU: InternalTorchDynamoError: AsPythonConstantNotImplementedError: SymNodeVariable() is not a
        constant, exit 1
"""

import torch
from torch import nn


class Ensemble(nn.Module):
    """Leaves one head out, chosen by the batch's size; averages the others."""

    def __init__(self, width=8, heads=4):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(width)) for _ in range(heads))

    def forward(self, x):
        weights = list(self.weights)
        left_out = weights.pop(x.shape[0] - 3)
        return torch.stack([x * w for w in weights]).mean(0) - 0.1 * left_out


def main():
    torch.manual_seed(0)
    model = Ensemble()
    x = torch.randn(5, 8)
    expected = model(x)
    actual = torch.compile(model, dynamic=True)(x)
    torch.testing.assert_close(actual, expected)


if __name__ == "__main__":
    main()
