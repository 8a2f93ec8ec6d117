"""A model that goes through a sparse tensor: torch.export takes it, and AOTInductor fails to compile it.

kind:   compile-error
layer:  aot-inductor (torch.compile leaves the sparse part to eager)
run:    python examples/aot_inductor_error.py
seen:   torch 2.13.0, CPU: InductorError: NotImplementedError: aten::_to_dense: attempted to run this operator with Meta
        tensors, exit 1
"""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, x):
        hidden = torch.relu(self.linear(x))
        return torch.sigmoid(hidden.to_sparse().to_dense() + 1)


torch.manual_seed(0)
model = Net().eval()
with torch.no_grad():
    exported = torch.export.export(model, (torch.randn(4, 6),))
    torch._inductor.aoti_compile_and_package(exported)
