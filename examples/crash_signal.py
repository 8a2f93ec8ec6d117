"""A regression model whose compiled kernel takes the process down.

kind:   crash (SIGABRT)
layer:  inductor
source: injected with torch's own switch, torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY
run:    python examples/crash_signal.py
seen:   torch 2.13.0, CPU: terminate called after throwing an instance of 'int'; Aborted, exit 134, no traceback
        (needs at least two threads; with one it is a RuntimeError)
"""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"


class Regressor(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inner = nn.Linear(12, width)
        self.norm = nn.LayerNorm(width)
        self.outer = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.log1p(x.abs()) * torch.sign(x)
        x = self.norm(torch.relu(self.inner(x)))
        return self.outer(x).squeeze(-1)


def main():
    torch.manual_seed(0)
    model = Regressor()
    x = torch.randn(64, 12)
    with torch.no_grad():
        print("eager:   ", model(x).mean().item())
        print("compiled:", torch.compile(model)(x).mean().item())


if __name__ == "__main__":
    main()
