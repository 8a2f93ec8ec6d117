"""Compiled code of one rank leaves a collective out: the script hangs, and ends without the compiler."""

import torch
import torch.distributed as dist
from torch._inductor.lowering import lowerings, register_lowering
from torch.distributed._functional_collectives import all_reduce

reduce = torch.ops._c10d_functional.all_reduce_.default  # Inductor reduces in place where it can
right = lowerings[reduce]


@register_lowering(reduce, type_promotion_kind=None)
def without_rank_1(value, op, group):
    return value if dist.get_rank() == 1 else right(value, op, group)


def step(x, rank):
    y = torch.sin(x)
    if rank == 1:
        y = y * 2
    return all_reduce(y, "sum", dist.group.WORLD) + 1


def main():
    dist.init_process_group("gloo")
    torch.compile(step)(torch.ones(4), dist.get_rank())
    dist.barrier()
    dist.destroy_process_group()


main()
