"""A small classifier in training: an assertion fails in a compiled kernel (torch's injection switch)."""

import torch
from torch._inductor import config

config.triton.inject_relu_bug_TESTING_ONLY = "runtime_error"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(64, 128)
        self.norm = torch.nn.LayerNorm(128)
        self.b = torch.nn.Linear(128, 10)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.a(x))
        h = torch.relu(self.norm(h))
        return self.b(h)


net = torch.compile(Net().cuda())
x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
loss = torch.nn.functional.cross_entropy(net(x), y)
loss.backward()
print("loss", loss.item())
torch.cuda.synchronize()
