"""A branch that depends on the rank: the ranks compile different graphs, and wait for different collectives."""

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce


def step(x, rank):
    y = torch.sin(x)
    if rank == 1:
        y = all_reduce(y, "sum", dist.group.WORLD)
    return y * 2


def main():
    dist.init_process_group("gloo")
    out = torch.compile(step)(torch.ones(4), dist.get_rank())
    dist.all_gather([torch.empty(4) for _ in range(dist.get_world_size())], out)
    dist.barrier()
    dist.destroy_process_group()


main()
