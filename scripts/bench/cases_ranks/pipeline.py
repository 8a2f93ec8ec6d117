"""A pipeline of two stages on gloo (needs NumPy): the second stage fails, and the first one loses its peer."""

import torch
import torch.distributed as dist
from torch._inductor.lowering import register_lowering
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


@register_lowering(torch.ops.aten.erfinv.default)
def broken(x):
    raise RuntimeError("no lowering for this")


class First(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)

    def forward(self, x):
        return torch.relu(self.up(x)).sin()


class Second(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x):
        return torch.erfinv(torch.sigmoid(self.down(x)) * 0.5)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    part = torch.compile(First() if rank == 0 else Second())
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=torch.nn.functional.mse_loss)
    if rank == 0:
        schedule.step(torch.randn(4, 8))
    else:
        schedule.step(target=torch.randn(4, 8), losses=[])
    dist.destroy_process_group()


main()
