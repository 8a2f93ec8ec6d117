"""One rank of a tensor-parallel layer on NCCL, with Triton code that is not valid (torch's injection switch)."""

import os

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch._inductor import config

config.triton.inject_relu_bug_TESTING_ONLY = "compile_error"


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(rank)
    up, down = torch.nn.Linear(32, 64).cuda(), torch.nn.Linear(64, 32).cuda()

    def block(x):
        y = down(torch.nn.functional.silu(up(x)))
        y = funcol.all_reduce(y, "sum", dist.group.WORLD)
        return torch.relu(y) + x

    x = torch.randn(8, 32, device="cuda")
    out = torch.compile(block)(x)
    print(rank, out.sum().item())
    dist.destroy_process_group()


main()
