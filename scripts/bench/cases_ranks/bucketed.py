"""Both ranks call two all_reduces; Inductor merges those of rank 0 into one, so compiled code waits for ever."""

import torch
import torch._inductor.config
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce

torch._inductor.config.bucket_all_reduces_fx = "all"


def step(x, rank):
    first = all_reduce(torch.sin(x), "sum", dist.group.WORLD)
    if rank == 1:
        x = x + first
    second = all_reduce(torch.cos(x), "sum", dist.group.WORLD)
    return first * 2 + second


def main():
    dist.init_process_group("gloo")
    out = torch.compile(step)(torch.ones(4), dist.get_rank())
    dist.barrier()
    print(out)
    dist.destroy_process_group()


main()
