"""The last rank has a smaller last batch: it alone compiles again."""

import torch
import torch.distributed as dist


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.nn.functional.silu(self.body(x)).mean()


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.compile(Net())
    data = torch.randn(4 * size - 1, 8).split(4)[rank]
    for batch in (torch.randn(4, 8), data):
        loss = model(batch)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    dist.destroy_process_group()


main()
