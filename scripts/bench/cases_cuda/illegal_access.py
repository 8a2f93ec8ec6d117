"""A lookup whose compiled kernel reads far outside of its table: planted, as a lowering."""

import torch
from torch._inductor import ir
from torch._inductor.lowering import register_lowering
from torch._inductor.virtualized import ops


@register_lowering([torch.ops.aten.gather, torch.ops.aten.gather.default], type_promotion_kind=None)
def gather(x, dim, index, sparse_grad=False):
    load, where = x.make_loader(), index.make_loader()

    def inner(idx):
        at = ops.indirect_indexing(where(idx), x.get_size()[dim], check=False)
        out = list(idx)
        out[dim] = at + (1 << 40)
        return load(out)

    return ir.Pointwise.create(device=x.get_device(), dtype=x.get_dtype(), inner_fn=inner, ranges=index.get_size())


class Ranker(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.score = torch.nn.Linear(16, 1)

    def forward(self, items, order):
        scores = torch.sigmoid(self.score(items)).squeeze(-1)
        picked = torch.gather(scores, 1, order)
        return (picked * torch.arange(picked.shape[1], device=picked.device)).sum(1)


model = Ranker().cuda()
items, order = torch.randn(8, 32, 16, device="cuda"), torch.randint(0, 32, (8, 5), device="cuda")
model(items, order)
result = torch.compile(model)(items, order)
print(result.tolist())
