"""Read the tolerance of the user's own check from the frames of the exception that the check raised.

Nothing is patched for this, since a patched comparison would change what Dynamo compiles.
"""

from __future__ import annotations

import ast
import linecache
from types import FrameType
from typing import Any

from repro_probe.common.raising_frame import raising_frame

#: Comparisons, with their default (rtol, atol). Those in `_RAISING` raise by themselves.
_RAISING = {"assert_close": (None, None), "assert_allclose": (1e-7, 0)}
_ASKED = {"allclose": (1e-5, 1e-8), "isclose": (1e-5, 1e-8), "equal": (0.0, 0.0), "array_equal": (0.0, 0.0)}
_EVALUATED = (
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.BinOp,
    ast.UnaryOp,
    ast.operator,
    ast.unaryop,
    ast.Load,
)


def tolerance(error: BaseException) -> list[float] | None:
    """Return [rtol, atol] of the check that raised `error`; None when the check states no tolerance."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in frames[::-1]:
        usual = _RAISING.get(frame.f_code.co_name)
        module = frame.f_globals.get("__name__", "")
        if usual is not None and module.startswith(("torch.testing", "numpy.testing")):
            given = frame.f_locals.get("rtol"), frame.f_locals.get("atol")
            return (
                None if given == usual or None in given else [float(number) for number in given if number is not None]
            )
    raising = raising_frame(error.__traceback__)
    return _asked(*raising) if raising is not None else None


def _asked(frame: FrameType, line: int) -> list[float] | None:
    """Return [rtol, atol] of the comparison in the assertion or condition around `line`, or None."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        call = _comparison(ast.parse("".join(lines)), line)
        if call is None:
            return None
        usual = _ASKED[_name(call)]
        given: dict[str | None, ast.expr] = dict(zip(("rtol", "atol"), call.args[2:4]))
        given.update((keyword.arg, keyword.value) for keyword in call.keywords)
        if usual != (0.0, 0.0) and not {"rtol", "atol"} & set(given):
            return None
        numbers = [
            _value(given[name], frame) if name in given else usual[at] for at, name in enumerate(("rtol", "atol"))
        ]
        return [float(number) for number in numbers]
    except (
        SyntaxError,
        ValueError,
        TypeError,
        NameError,
        AttributeError,
    ):  # the file is not Python, or the tolerance is not a number
        return None


def _comparison(tree: ast.AST, line: int) -> ast.Call | None:
    """Return the comparison that decided: a call in the condition, or one assigned earlier to a name in it."""
    nodes = sorted((node for node in ast.walk(tree) if hasattr(node, "lineno")), key=lambda node: -node.lineno)
    around = [
        node.test
        for node in nodes
        if isinstance(node, (ast.Assert, ast.If)) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    names = {node.id for test in around for node in ast.walk(test) if isinstance(node, ast.Name)}
    before = [node for node in nodes if isinstance(node, ast.Assign) and node.lineno < line]
    assigned = [node.value for node in before if any(getattr(target, "id", None) in names for target in node.targets)]
    for expression in (*around, *assigned):
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and _name(node) in _ASKED:
                return node
    return None


def _name(call: ast.Call) -> Any:
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None)


def _value(node: ast.expr, frame: FrameType) -> Any:
    if not all(isinstance(part, _EVALUATED) for part in ast.walk(node)):
        raise ValueError("not a plain expression")
    return eval(compile(ast.Expression(node), "<tolerance>", "eval"), frame.f_globals, frame.f_locals)
