"""With the setting of pytorch/pytorch#126846, Dynamo fails to trace a functional collective."""

import torch
import torch._functorch.config
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce

torch._functorch.config.fake_tensor_propagate_real_tensors = True


def normalize(x):
    y = torch.nn.functional.silu(x)
    return y / all_reduce(y.sum(), "sum", dist.group.WORLD)


def main():
    dist.init_process_group("gloo")
    compiled = torch.compile(normalize)
    for step in range(3):
        rows = 3 if step == 2 and dist.get_rank() == 1 else 4
        compiled(torch.ones(rows, 8))
    dist.barrier()
    print("done", flush=True)
    dist.destroy_process_group()


main()
