"""A program's own operators are held to what they say, and can be kept out of graphs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

_OPERATOR = """
@torch.library.custom_op('mine::{name}', mutates_args={writes})
def {name}(x: torch.Tensor) -> {returns}:
    {body}
@{name}.register_fake
def _(x):
    {fake}
"""
_SHAPE = "x[:2].clone()"


def operator(
    name: str,
    body: str = "return x * 2",
    fake: str = "return torch.empty_like(x)",
    returns: str = "torch.Tensor",
    writes: str = "()",
) -> str:
    return _OPERATOR.format(name=name, body=body, fake=fake, returns=returns, writes=writes)


_DEFINED = "library.define('{name}(Tensor x) -> Tensor')\nlibrary.impl('{name}', lambda x: {kernel}, 'CPU')\n"
_META = "library.impl('{name}', lambda x: {fake}, 'Meta')\n"

#: name -> (source, what is said)
BROKEN = {
    "shape": (
        operator("shape", f"return {_SHAPE}"),
        "mine::shape returns shape (4, 3) with fake tensors, and shape (2, 3) without",
    ),
    "dtype": (
        operator("dtype", "return x.double()"),
        "mine::dtype returns torch.float32 with fake tensors, and torch.float64 without",
    ),
    "strides": (
        operator("strides", "return x.t().contiguous().t()"),
        "mine::strides returns strides (3, 1) with fake tensors, and strides (1, 4) without",
    ),
    "device": (
        operator("device", fake="return torch.empty_like(x, device='meta')"),
        "mine::device returns a tensor on meta with fake tensors, and a tensor on cpu without",
    ),
    "second": (
        operator(
            "second",
            "return x * 2, x.sum()",
            "return torch.empty_like(x), torch.empty_like(x)",
            "tuple[torch.Tensor, torch.Tensor]",
        ),
        "mine::second returns, as result 1, shape (4, 3) with fake tensors, and shape () without",
    ),
    "number": (
        operator("number", "return [x * 2, x * 3]", "return [torch.empty_like(x)]", "list[torch.Tensor]"),
        "mine::number returns 1 results with fake tensors, and 2 without",
    ),
    "own": (
        operator("own", fake="return x"),
        "mine::own returns a view of its argument 'x' with fake tensors only",
    ),
    "raises": (
        operator("raises", fake="return x.view(5)"),
        "mine::raises raises RuntimeError with fake tensors (shape '[5]' is invalid for input of size 12)",
    ),
    "writes": (
        operator("writes", "x.add_(1)\n    return x * 2"),
        "mine::writes writes to its argument 'x', and its schema does not say so",
    ),
    "counts": (
        "calls = []\n" + operator("counts", "calls.append(1)\n    return x * len(calls)"),
        "mine::counts returns other results when it is called again with the same arguments",
    ),
    "places": (
        "kept = {}\n"
        + operator("places", "kept.setdefault(x.data_ptr(), x * 2)\n    return kept[x.data_ptr()].clone()"),
        "mine::places returns other results for the same values at another place in memory",
    ),
    "meta": (
        _DEFINED.format(name="meta", kernel="x.double()") + _META.format(name="meta", fake="torch.empty_like(x)"),
        "mine::meta returns torch.float32 with fake tensors, and torch.float64 without",
    ),
    "views": (
        _DEFINED.format(name="views", kernel="x.view(-1).view(x.shape)")
        + _META.format(name="views", fake="torch.empty_like(x)"),
        "mine::views returns a view of its argument 'x', and its schema does not say so",
    ),
}
_FORMULA = """
scale = [1.0]
class Settings:
    scale = 1.0
settings = Settings()
settings.scale = 1.0
def keep(ctx, inputs, output):
    ctx.x = inputs[0]
{name}.register_autograd(lambda ctx, grad: grad * {formula}, setup_context=keep)
"""
_TRAINED = """
for turn in range(2):
    scale[0] += 1.0
    settings.scale += 1.0
    try:
        torch.ops.mine.{name}(x.clone().requires_grad_()).sum().backward()
    except Exception as error:
        print(f'{name}: {{type(error).__name__}}: {{error}}')
"""
FORMULAS = {"first": "scale[0]", "settled": "settings.scale", "proper": "(2 + ctx.x * 0)"}
KEPT = {
    "right": operator("right"),
    "in_place": operator("in_place", "x.add_(1)", "return None", "None", "('x',)"),
    "random": operator("random", "return torch.rand_like(x)"),
    "sizes": operator("sizes", "return x[x > 0]", "return x.new_empty((torch.library.get_ctx().new_dynamic_size(),))"),
    "none": _DEFINED.format(name="none", kernel="x.double()"),
    "integers": operator("integers", "return (x > 0) & (x < 2)", "return torch.empty_like(x, dtype=torch.bool)"),
    "nan": operator("nan", "return x / 0 * 0"),
    "sorted_only": operator("sorted_only", "torch._assert((x.diff() >= 0).all(), 'not sorted')\n    return x * 2"),
}
_SCRIPT = """
import os, torch
{setup}
library = torch.library.Library('mine', 'FRAGMENT')
x = torch.arange(12.0).reshape(4, 3)
{operators}
for name in {names}:
    try:
        getattr(torch.ops.mine, name)(x.clone().requires_grad_(name == 'right'))
    except Exception as error:
        print(f'{{name}}: {{type(error).__name__}}: {{error}}')
"""
_OUT = """
import torch
{setup}
{operator}
def own(x):
    y = torch.ops.mine.shape.default(x + 1) + torch.ops.mine.shape(x) + shape(x)
    return y * y.shape[0]
x = torch.ones(4, 3)
compiled = torch.compile(own, backend='eager')
print(torch.equal(compiled(x), own(x)))
"""


def _ran(python: Path, tmp_path: Path, source: str) -> str:
    path = tmp_path / "a.py"
    path.write_text(source, encoding="utf-8")
    ran = subprocess.run([python, str(path)], capture_output=True, text=True, check=False)
    assert not ran.returncode, ran.stderr
    return ran.stdout


@pytest.mark.torch
@pytest.mark.slow
def test_each_operator_is_held_to_what_it_says(python_in_forks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from repro_kit.probe import setup_of

    operators = "\n".join([*(source for source, _ in BROKEN.values()), *KEPT.values()])
    setup = setup_of("own_operators", "check()")
    told = _ran(python_in_forks, tmp_path, _SCRIPT.format(setup=setup, operators=operators, names=[*BROKEN, *KEPT]))
    assert told.splitlines() == [f"{name}: OperatorMismatch: {said}" for name, (_, said) in BROKEN.items()]


@pytest.mark.torch
@pytest.mark.slow
def test_a_formula_that_reads_what_changes_is_told(python_in_forks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from repro_kit.probe import setup_of

    parts = [
        operator(name) + _FORMULA.format(name=name, formula=formula) + _TRAINED.format(name=name)
        for name, formula in FORMULAS.items()
    ]
    begin = f"import torch\n{setup_of('own_operators', 'check()')}x = torch.ones(3)\n"
    reads = "OperatorMismatch: mine::{} has an autograd formula that reads {!r}, which changes between two calls"
    assert _ran(python_in_forks, tmp_path, begin + "\n".join(parts)).splitlines() == [
        "first: " + reads.format("first", "scale"),
        "settled: " + reads.format("settled", "settings.scale"),
    ]


@pytest.mark.torch
@pytest.mark.slow
def test_an_operator_is_kept_out_of_the_graphs(python_in_forks: Path, tmp_path: Path) -> None:
    """However the program calls it: the graph of the rest has the sizes that the operator returns."""
    pytest.importorskip("torch")
    from repro_kit.probe import setup_of

    source, _ = BROKEN["shape"]
    for setup, right in (("", "False\n"), (setup_of("own_operators", "keep_out()"), "True\n")):
        assert _ran(python_in_forks, tmp_path, _OUT.format(setup=setup, operator=source)) == right


@pytest.mark.torch
@pytest.mark.slow
def test_the_forms_of_all_operators_are_held_to_those_of_fake_tensors(python_in_forks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from repro_kit.probe import setup_of

    source, said = BROKEN["strides"]
    right = "x = torch.ones(4, 3).requires_grad_()\n(x @ x.t()).relu().sum(0).sort()[0].sum().backward()\n"
    wrong = "try:\n    strides(torch.ones(4, 3))\nexcept Exception as error:\n    print(error)\n"
    begin = f"import torch\n{source}\n{setup_of('own_operators', 'check_forms()')}"
    assert _ran(python_in_forks, tmp_path, begin + right + wrong) == f"{said}\n"
