"""Find the nature of a user's exception from its class and the frame that raised it.

Nothing is patched for this, since a patched comparison would change what Dynamo compiles.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from typing import Any

from repro_probe.common.raising_frame import raising_frame
from repro_probe.protocol.findings import ExceptionNature

#: Exceptions of these classes come from the machine, the network or the user's keyboard.
_MACHINE = (OSError, EOFError, KeyboardInterrupt)
_DEPTH = 4  # how often a name is replaced by the expression that was assigned to it
#: Functions that read a clock: those of `time`, `timeit` and `datetime`, and of torch's events.
_CLOCKS = {
    *("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "process_time_ns"),
    *("time", "time_ns", "thread_time", "default_timer", "elapsed_time", "timeit", "now"),
}


def of(error: BaseException) -> ExceptionNature:
    """Return the nature of `error`.

    ``machine``: `error` or one of its causes is an error of the operating system. ``compares`` and ``clock``: the
    condition that raised `error` depends on tensors, or on a clock.
    """
    compares, clock = _condition(error)
    machine = any(isinstance(link, _MACHINE) for link in _chain(error))
    return {"machine": machine, "compares": compares, "clock": clock}


def _chain(error: BaseException | None) -> list[BaseException]:
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return seen


def _condition(error: BaseException) -> tuple[bool, bool]:
    """Return whether the condition that raised `error` depends on tensors, and whether it depends on a clock."""
    raising = raising_frame(error.__traceback__)
    if raising is None:
        return False, False
    frame, line = raising
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    except (SyntaxError, ValueError):  # the user's file has changed, and is not Python any more
        return False, False
    variables = {**frame.f_globals, **frame.f_locals}
    expressions = _expressions(tree, line)
    names = {name for expression in expressions for name in _named(expression)}
    clock = any(_called(node) in _CLOCKS for expression in expressions for node in ast.walk(expression))
    return any(_is_array(variables.get(name)) for name in names), clock


def _expressions(tree: ast.AST, line: int) -> list[ast.expr]:
    """Return the condition around `line`, and the expressions that its names were assigned or stand for."""
    nodes = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    around = [
        node
        for node in nodes
        if isinstance(node, (ast.Assert, ast.If)) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    expressions = [max(around, key=lambda node: node.lineno).test] if around else []
    assigned = [node for node in nodes if isinstance(node, (ast.Assign, ast.AugAssign)) and node.lineno < line]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    for _ in range(_DEPTH):
        names = {name for expression in expressions for name in _named(expression)}
        values = [node.value for node in assigned if names & set(_targets(node))]
        values += [value for function in functions if function.name in names for value in _returned(function)]
        expressions += [value for value in values if value not in expressions]
    return expressions


def _returned(function: ast.FunctionDef) -> list[ast.expr]:
    """Return what `function` returns."""
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]


def _called(node: ast.AST) -> str:
    """Return the last part of the name of the function that `node` calls; "" when `node` is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _targets(node: Any) -> Iterator[str]:
    for target in getattr(node, "targets", None) or [node.target]:
        yield from _named(target)


def _named(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _is_array(value: Any) -> bool:
    """Whether `value` is a tensor, an array, or a list of them."""
    if isinstance(value, (list, tuple)):
        return any(_is_array(item) for item in value[:3])
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    kinds = [getattr(torch, "Tensor", None), getattr(numpy, "ndarray", None), getattr(numpy, "generic", None)]
    return isinstance(value, tuple(kind for kind in kinds if kind is not None))
