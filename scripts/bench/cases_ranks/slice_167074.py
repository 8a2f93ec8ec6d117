"""pytorch/pytorch#167074: a compiled function cannot return a view of a DTensor that it is given."""

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh


class Rotary(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.scale = 0.5

    def forward(self, cache, query):
        rotated = torch.nn.functional.silu(query * self.scale)
        return cache[..., : self.size], rotated


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    cache = distribute_tensor(torch.randn(16, 8), mesh, [Replicate()])
    query = distribute_tensor(torch.randn(4, 8), mesh, [Replicate()])
    rotary = Rotary(4)
    for run in (rotary, torch.compile(rotary)):
        own, rotated = run(cache, query)
        print(own.shape, rotated.sum().item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
