"""Find the wrong values that explain no wrong result: put in the place of eager's own, they change nothing in eager.

A program may have a bug that its results do not show, beside the one that they show: of a number that is only compared,
say, or that is multiplied by zero.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from repro_probe.judge import compare_outputs
from repro_probe.judge.compare_outputs import Tolerance
from repro_probe.protocol.failure_data import OF_CONTENT
from repro_probe.query.record_values import defined, graph_of
from repro_probe.run import outputs
from repro_probe.run.load_program import LoadedProgram

_SWAP = "__repro_swap__"  # the name that instrumented code calls
_MOST = 16  # values that are judged one by one

#: Of a value: the leaves that a compiled run gave it in each call.
Leaves = Sequence[Sequence[Any]]


def harmless(program: LoadedProgram, text: str, wrong: Mapping[str, Leaves]) -> set[str]:
    """Return those of the `wrong` values of `graph`, as a compiled run gave them, that change no result of `program`.

    All together may change a result although each alone does not: then each is left, and so is each of many.
    """
    eager = outputs.run(program, program.graph)
    tolerance = Tolerance(program.recipe)

    def is_idle(names: Collection[str]) -> bool:
        swapped = _swapped(program, text, {name: iter(wrong[name]) for name in names})
        try:
            other = outputs.run(swapped, swapped.graph)
        except Exception:  # what follows cannot work with the value
            return False
        found = compare_outputs.differences(eager, other, tolerance)
        return not any(each["kind"] in OF_CONTENT for each in found)

    if is_idle(wrong):
        return set(wrong)
    idle = {name for name in wrong if is_idle([name])} if 1 < len(wrong) <= _MOST else set()
    return idle if len(idle) < len(wrong) else set()


def _swapped(program: LoadedProgram, text: str, others: Mapping[str, Iterator[Sequence[Any]]]) -> LoadedProgram:
    """Return `program` with a graph that replaces values as soon as they are made. `others`: for each call."""
    function = graph_of(text)
    body = []
    for statement in function.body:
        body.append(statement)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id in others:
            body += ast.parse(f"{target.id} = {_SWAP}({target.id!r}, {target.id})").body
    function.body = body

    def swap(name: str, value: Any) -> Any:
        leaves, structure = tree_flatten(value)
        return tree_unflatten([_changed(own, new) for own, new in zip(leaves, next(others[name]))], structure)

    namespace = defined(function, program)
    namespace[_SWAP] = swap  # the graph's own globals
    return LoadedProgram(namespace, program.recipe)


def _changed(own: Any, new: Any) -> Any:
    """Return `own` with the content of `new`, in the memory that others may share, and in autograd as it was.

    Raises ValueError where that cannot be.
    """
    if not isinstance(own, torch.Tensor):
        return new
    if own.shape != new.shape or (own.dtype != new.dtype and (own._is_view() or own._version)):
        raise ValueError("others share the memory of a tensor of another form")
    changed = own.to(new.dtype)
    changed.data.copy_(new)
    return changed
