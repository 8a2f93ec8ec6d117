"""A gradient that is wrong through an all-gather: its reduce-scatter takes the largest value in place of the sum."""

import torch
import torch.distributed as dist
from torch._inductor.lowering import lowerings, register_lowering
from torch.distributed._functional_collectives import all_gather_tensor_autograd

reduce_scatter = torch.ops._c10d_functional.reduce_scatter_tensor.default
right = lowerings[reduce_scatter]


@register_lowering(reduce_scatter, type_promotion_kind=None)
def wrong(value, op, size, group):
    return right(value, "max", size, group)


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 4)

    def forward(self, x):
        hidden = torch.relu(self.first(x)) * 0.5
        whole = all_gather_tensor_autograd(hidden, 0, dist.group.WORLD)
        return torch.nn.functional.gelu(self.second(whole)).sum()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Head()
    torch.manual_seed(1 + dist.get_rank())
    x = torch.randn(4, 8)
    model(x).backward()
    expected = model.first.weight.grad.clone()
    model.zero_grad()
    torch.compile(model)(x).backward()
    torch.testing.assert_close(model.first.weight.grad, expected)
    dist.destroy_process_group()


main()
