"""Levels of torch.func, taken out of what Dynamo writes for vmap(grad(f))."""

from __future__ import annotations

import pytest

from repro_kit.graph import parse, render
from repro_kit.graph.levels import lifted, unnested
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


@pytest.mark.parametrize("home", HOMES)
def test_levels_become_calls_of_torch_func(home: str) -> None:
    found = lifted(parse(PROGRAM.replace("HOME", home)))
    assert found is not None
    text = render(found)
    assert "def body(v, x):\n    y = x @ v\n    total = y.sum()\n    return total\n" in text
    assert "    pair = torch.func.grad_and_value(lambda v: body(v, x))(w)\n" in text
    assert "    result = torch.vmap(lambda x: body_1(x, w), in_dims=1)(batch)\n    return (result,)" in text
    assert "_functorch" not in text


_JACOBIAN = """
import torch


def graph(x, eye):
    chunk = x.new_zeros(9, 9)
    diagonal = chunk.diagonal(0)
    ones = diagonal.fill_(1)
    basis = chunk.view(9, 3, 3)
    lazy = P.lazy_load_decompositions()
    mapped = P._vmap_increment_nesting(9, 'error')
    tangent = P._add_batch_dim(basis, 0, 1)
    level = P._jvp_increment_nesting()
    on = torch._C._set_fwd_grad_enabled(True)
    entered = P._enter_dual_level()
    loaded = torch.autograd.forward_ad._maybe_load_decompositions()
    _make_dual_1 = P._make_dual(x, tangent, level=0)
    wrapped = torch._C._functorch._wrap_for_grad(x, 2)
    trace = torch.trace(_make_dual_1)
    y = trace * eye
    unpacked = P._unpack_dual(y, level=0)
    primal = unpacked[0]
    derived = unpacked[1]
    first = P._unwrap_for_grad(primal, 2)
    second = P._unwrap_for_grad(derived, 2)
    left = P._exit_dual_level(level=0)
    off = torch._C._set_fwd_grad_enabled(True)
    closed = P._jvp_decrement_nesting()
    rows = P._remove_batch_dim(second, 1, 9, 0)
    end = P._vmap_decrement_nesting()
    moved = rows.movedim(0, -1)
    parts = torch.functional.split(moved, [9], dim=-1)
    part = parts[0]
    jacobian = part.unflatten(-1, (3, 3))
    return (jacobian,)


def calls():
    x = torch.randn(3, 3)
    eye = torch.eye(3)
    return [(x, eye)]
""".replace("P.", "torch._functorch.predispatch.")


def test_a_function_that_is_mapped_over_a_unit_matrix_is_a_jacobian_and_can_be_called_without_it() -> None:
    found = lifted(parse(_JACOBIAN))
    assert found is not None
    (jacobian,) = found.graph.statements
    assert jacobian.line == "jacobian = torch.func.jacfwd(lambda z: body(z, eye))(x)"
    assert [statement.line for statement in found.bodies[0].statements] == [
        "trace = torch.trace(z)",
        "y = trace * eye",
    ]
    (plain,) = unnested(found)
    assert [statement.line for statement in plain.graph.statements] == ["jacobian = body(x, eye)"]


def test_a_level_that_does_not_end_stays_as_it_is() -> None:
    for missing in ("    end = ", "    tangent = ", "    unpacked = "):
        lines = [line for line in _JACOBIAN.splitlines() if not line.startswith(missing)]
        assert lifted(parse("\n".join(lines) + "\n")) is None
