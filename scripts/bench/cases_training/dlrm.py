"""One training step of a DLRM; the logarithm of its dense features comes out wrong (torch's own switch)."""

import copy
from itertools import pairwise

import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional as F

torch._inductor.config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


def tower(sizes):
    layers = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.SiLU()]
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    def __init__(self, tables=16, dense=8, width=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(20 + at, width, mode="sum") for at in range(tables))
        self.bottom = tower([dense, 32, 24, 16, width])
        pairs = (tables + 1) * tables // 2
        self.register_buffer("rows", torch.tril_indices(tables + 1, tables + 1, -1))
        self.top = tower([pairs + width, 64, 48, 32, 24, 16])
        self.head = nn.Linear(16, 1)

    def forward(self, dense, bags, offsets):
        low = self.bottom(torch.log1p(dense.clamp(min=0)))
        sparse = [table(bag, offsets) for table, bag in zip(self.tables, bags, strict=True)]
        all_of = torch.stack([low, *sparse], 1)
        dots = torch.bmm(all_of, all_of.transpose(1, 2))
        crossed = dots[:, self.rows[0], self.rows[1]]
        return torch.sigmoid(self.head(self.top(torch.cat([low, crossed], 1)))).squeeze(1)


torch.manual_seed(0)
model = DLRM()
other = copy.deepcopy(model)
dense, offsets = torch.rand(6, 8) * 50, torch.arange(0, 18, 3)
bags, target = [torch.randint(0, 20, (18,)) for _ in range(16)], torch.rand(6)
losses = []
for net in (model, torch.compile(other)):
    loss = F.binary_cross_entropy(net(dense, bags, offsets), target)
    loss.backward()
    losses.append(loss.detach())
torch.testing.assert_close(losses[1], losses[0])
