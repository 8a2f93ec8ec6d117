"""A compile that is slow on one rank, but ends; the others wait for it in a collective."""

import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def slow(gm, inputs):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        sum(range(1000))
    return gm.forward


def main(rank, size):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29533", rank=rank, world_size=size)
    compiled = torch.compile(torch.sin, backend=slow if rank == 1 else "eager")
    dist.all_reduce(compiled(torch.ones(4)))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, (2,), nprocs=2)
