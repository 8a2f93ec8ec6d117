"""AOTInductor writes C++ that does not compile: a slice whose end is read from a tensor."""

import torch


class Window(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(6, 6)

    def forward(self, x, count):
        hidden = torch.relu(self.project(x))
        kept = hidden[: count.item()]
        return torch.sigmoid(kept) * 2


torch.manual_seed(0)
model = Window().eval()
with torch.no_grad():
    exported = torch.export.export(model, (torch.randn(8, 6), torch.tensor(5)))
    path = torch._inductor.aoti_compile_and_package(exported)
    package = torch._inductor.aoti_load_package(path)
    x = torch.randn(8, 6)
    torch.testing.assert_close(package(x, torch.tensor(3)), model(x, torch.tensor(3)))
