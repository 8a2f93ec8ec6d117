"""Collectives in another order: one rank reduces the loss before it gathers the outputs."""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    out = torch.compile(torch.sin)(torch.ones(4) + rank)
    everything = [torch.empty(4) for _ in range(dist.get_world_size())]

    def log(value):
        dist.all_reduce(value.sum())

    def gather(value):
        dist.all_gather(everything, value)

    for step in (log, gather) if rank else (gather, log):
        step(out)
    dist.barrier()
    dist.destroy_process_group()


main()
