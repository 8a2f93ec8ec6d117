"""pytorch/pytorch#196227: Dynamo splits a graph for DDP, and AOTAutograd fails on a number that a part returns."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Residual(torch.nn.Module):
    """A residual block that drops some rows of its branches while it trains."""

    def __init__(self, drop):
        super().__init__()
        self.drop = drop
        self.first = torch.nn.Linear(512, 512)
        self.second = torch.nn.Linear(512, 512)

    def branch(self, layer, x):
        y = layer(x)
        if self.drop == 0.0:
            return x + y
        kept = torch.empty(x.shape[0], 1).bernoulli_(1.0 - self.drop).div_(1.0 - self.drop)
        return x + y * kept

    def forward(self, x):
        torch._dynamo.graph_break()
        return self.branch(self.second, self.branch(self.first, x))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(*(Residual(drop) for drop in (0.0, 0.1, 0.2))), bucket_cap_mb=1)
    torch.compile(model)(torch.randn(4, 512)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
