"""Levels of torch.func, taken out of what Dynamo writes for vmap(grad(f))."""

from __future__ import annotations

import pytest

from repro_kit.graph import parse, render
from repro_kit.graph.simpler import without_levels

HOMES = ("torch._functorch.predispatch", "torch._C._functorch")  # of the calls, in a newer and in an older torch
PROGRAM = """
import torch


def graph(w, batch):
    level = HOME._vmap_increment_nesting(2, 'error')
    x = HOME._add_batch_dim(batch, 1, 1)
    inner = torch._C._functorch._grad_increment_nesting()
    v = torch._C._functorch._wrap_for_grad(w, 2)
    y = x @ v
    total = y.sum()
    gradients = torch._functorch.eager_transforms._autograd_grad((total,), [v], create_graph=True)
    gradient = gradients[0]
    plain = HOME._unwrap_for_grad(gradient, 2)
    closed = torch._C._functorch._grad_decrement_nesting()
    result = HOME._remove_batch_dim(plain, 1, 2, 0)
    end = HOME._vmap_decrement_nesting()
    return (result,)


def calls():
    w = torch.randn(4)
    batch = torch.randn(3, 2, 4)
    return [(w, batch)]
"""


@pytest.mark.parametrize("home", HOMES)
def test_the_first_sample_is_computed_without_a_gradient(home: str) -> None:
    plain = without_levels(parse(PROGRAM.replace("HOME", home)))
    assert plain is not None
    lines = [statement.line for statement in plain.graph.statements]
    assert lines == ["x = batch.select(1, 0)", "y = x @ w", "total = y.sum()"]
    assert "return (total,)" in render(plain)


def test_a_graph_without_levels_stays() -> None:
    assert without_levels(parse(PROGRAM.replace("_nesting", "_other"))) is None
