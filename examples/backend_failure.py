"""A vendor's backend that lacks an operator.

kind:   compile-error
layer:  backend
source: planted; the backend is a plain callable in this file
run:    python examples/backend_failure.py
seen:   torch 2.13.0, CPU: BackendCompilerFailed: backend='toy_npu' raised: NotImplementedError, exit 1
"""

import torch
import torch.nn.functional as F
from torch import nn

SUPPORTED = {"linear", "relu", "gelu", "layer_norm", "add", "mul", "sigmoid"}


def toy_npu(gm, example_inputs):
    """Check that the device has every operator, then run the graph as it is."""
    for node in gm.graph.nodes:
        if node.op in ("call_function", "call_method"):
            name = getattr(node.target, "__name__", str(node.target))
            if name not in SUPPORTED:
                raise NotImplementedError(f"toy_npu has no kernel for {name}")
    return gm.forward


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        y = F.hardswish(self.up(self.norm(x)))
        return x + self.down(y) * torch.sigmoid(self.gate(x))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(3)))
    x = torch.randn(2, 5, 16)
    print("eager:", model(x).sum().item())
    print("toy_npu:", torch.compile(model, backend=toy_npu)(x).sum().item())


if __name__ == "__main__":
    main()
