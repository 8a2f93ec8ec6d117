"""What makes a program less than defined is seen in eager: random numbers, unwritten memory, the order of writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from repro_kit.probe.repro_probe.protocol.failure_data import (
    BAD_OFFSETS,
    OVERLAP,
    RANDOM_NUMBERS,
    SAVED_VALUES,
    UNINITIALISED,
    WRITE_ORDER,
)
from repro_kit.probe.repro_probe.protocol.recipe_data import RECIPE_DEFAULTS

pytestmark = pytest.mark.torch

#: Bodies of a graph of `x` (6 × 8), `at` (4 numbers), `column` (2 × 8 zeros) and `w` (4 × 8), and what is doubted.
GRAPHS: dict[str, tuple[str, ...]] = {
    "return torch.relu(x)": (),
    "return torch.nn.functional.dropout(x, 0.5, False)": (),
    "return torch.nn.functional.dropout(x)": (RANDOM_NUMBERS,),
    "y = torch.empty(6, 8)\ny.copy_(x)\nreturn y": (),
    "y = torch.empty_like(x)\nreturn x + y": (UNINITIALISED,),
    "y = x.clone()\ny[at] = w\nreturn y": (WRITE_ORDER,),
    "y = x.clone()\ny[at] = w * 0\nreturn y": (),
    "y = x.clone()\ny[at] = 1.0\nreturn y": (),
    "y = x.clone()\ny.index_put_((at,), w, accumulate=True)\nreturn y": (),
    "y = x.clone()\ny[:, at] = x[:, 2:6]\nreturn y": (WRITE_ORDER,),
    "y = x.clone()\ny[:, at] = x[:, :1]\nreturn y": (),
    "y = x.clone()[None]\ny[:, at, 1] = w[None, :, 0]\nreturn y": (WRITE_ORDER,),
    "y = x.clone().view(4, 2, 6)\ny[at[:2], :, at[1:3]] = w[:2, :2]\nreturn y": (),
    "y = x.clone().view(6, 2, 4)\ny[at[1:3], :, at[1:3]] = w[:2, :2]\nreturn y": (WRITE_ORDER,),
    "y = x * 1\ntorch.scatter(x, 0, column, w, out=y)\nreturn y": (WRITE_ORDER,),
    "y = x[0] * 1\nreturn torch.batch_norm(x, None, None, y, y, True, 0.1, 1e-5, False), y": (WRITE_ORDER,),
    "y = x[0] * 1\nreturn torch.batch_norm(x, None, None, y, y, False, 0.1, 1e-5, False), y": (),
    "y = x[:2] * 1\nreturn torch.batch_norm(x, None, None, y[0], y[1], True, 0.1, 1e-5, False), y": (),
    "return x.index_copy(0, at, w)": (WRITE_ORDER,),
    "return x.scatter(0, column, w)": (WRITE_ORDER,),
    "return x.scatter(0, column, 2.0)": (),
    "y = x.clone()\ny[at, at] = w[:, 0]\nreturn y": (WRITE_ORDER,),
    "return x.put(at, w[0, :4])": (WRITE_ORDER,),
    "return x.put(at, w[0, :4], accumulate=True)": (),
    "y = x.new_zeros(4)\ny.resize_(6, 8)\nreturn x + y": (UNINITIALISED,),
    "y = x.clone()\ny.resize_(2, 8)\nreturn y * y.resize_(6, 8)[0]": (),
    "y = x.new_zeros(4)\ny.resize_(6, 8).copy_(x)\nreturn y": (),
    "return x + torch.Tensor(6, 8)": (UNINITIALISED,),
    "return x + x.new(6, 8)": (UNINITIALISED,),
    "y = x.new_zeros(4)\ny.resize_as_(x)\nreturn x + y": (UNINITIALISED,),
    "y = x[:, ::2] * 1\nh = y.t()[::2]\nh[:, 1:].add_(h[:, :-1])\nreturn y": (OVERLAP,),
    "y = x.clone()\ny[:3].add_(y[3:])\nreturn y": (),
    "y = x.clone()\ny.add_(y)\nreturn y.mul_(y)": (),
    "y = x.clone()[:4, :4]\ny.copy_(y.t())\nreturn y": (OVERLAP,),
    "y = x.clone().as_strided((2, 2), (1, 1))\ny.add_(1)\nreturn y": (OVERLAP,),
    "y = x.clone().as_strided((2, 2), (1, 1))\ny.fill_(2.0)\nreturn y * 2": (),
    "y = x.clone().as_strided((2, 2), (3, 1))\ny.add_(1)\nreturn y": (),
    "n = torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 2, 6]))\nreturn n.values()": (),
    "n = torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 4, 2, 6]))\nreturn n.values()": (BAD_OFFSETS,),
}


@pytest.mark.parametrize("body", GRAPHS)
def test_only_what_is_not_defined_is_doubted(body: str) -> None:
    torch = pytest.importorskip("torch")
    from repro_probe.judge.doubts import doubts
    from repro_probe.run import outputs
    from repro_probe.run.load_program import LoadedProgram

    lines = body.replace("\n", "\n    ")
    namespace: dict[str, Any] = {"torch": torch}
    exec(f"def graph(x, at, column, w):\n    {lines}", namespace)
    numbers = torch.arange(48.0).reshape(6, 8)
    zeros = torch.zeros(2, 8, dtype=torch.int64)
    namespace["calls"] = lambda: [(numbers.clone(), torch.tensor([0, 2, 2, 5]), zeros.clone(), numbers[:4] + 1)]
    program = LoadedProgram(namespace, {**RECIPE_DEFAULTS})
    eager = outputs.run(program, program.graph)
    assert tuple(doubts(program, eager)) == GRAPHS[body]


@pytest.mark.parametrize(("pack", "doubted"), [("t.bfloat16()", (SAVED_VALUES,)), ("t.clone()", ())])
def test_hooks_that_change_saved_values_are_told_from_those_that_keep_them(pack: str, doubted: tuple[str, ...]) -> None:
    torch = pytest.importorskip("torch")
    from repro_probe.judge.doubts import doubts
    from repro_probe.run import outputs
    from repro_probe.run.load_program import LoadedProgram

    namespace: dict[str, Any] = {
        "torch": torch,
        "graph": lambda x: x.sin() * x.exp(),
        "calls": lambda: [(torch.linspace(0, 3, 50, requires_grad=True),)],
    }
    context = f"torch.autograd.graph.saved_tensors_hooks(lambda t: {pack}, lambda t: t.float())"
    program = LoadedProgram(namespace, {**RECIPE_DEFAULTS, "contexts": [context], "backward": "sum"})
    eager = outputs.run(program, program.graph)
    assert tuple(doubts(program, eager)) == doubted
    assert doubts(program, eager, ["output 0"]) == []


def test_another_seed_may_drop_the_same_element() -> None:
    torch = pytest.importorskip("torch")
    from repro_probe.judge import recheck
    from repro_probe.run import outputs
    from repro_probe.run.load_program import LoadedProgram

    namespace: dict[str, Any] = {
        "graph": lambda x: torch.nn.functional.dropout(x),
        "calls": lambda: [(torch.ones(1, 1),)],
    }
    program = LoadedProgram(namespace, {**RECIPE_DEFAULTS})
    eager = outputs.run(program, program.graph)
    wrong = outputs.run(program, lambda x: x * 3)
    asked = SimpleNamespace(times=0)

    def with_eager_random() -> outputs.Outcome:
        asked.times += 1
        return eager

    said = recheck.reconsider(program, eager, wrong, with_eager_random)
    assert said["random"] and said["difference"] is None and asked.times == 1
