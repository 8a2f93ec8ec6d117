"""FSDP2 on gloo: the sharded parameters are gathered around each call, and an operator's lowering fails."""

import torch
import torch.distributed as dist
from torch._inductor.lowering import register_lowering
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


@register_lowering(torch.ops.aten.erfinv.default)
def broken(x):
    raise RuntimeError("no lowering for this")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x):
        return torch.erfinv(self.down(torch.relu(self.up(x))).sin() * 0.5).sum()


def main():
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    model = Net()
    fully_shard(model, mesh=mesh)
    torch.compile(model)(torch.randn(4, 8)).backward()
    dist.destroy_process_group()


main()
