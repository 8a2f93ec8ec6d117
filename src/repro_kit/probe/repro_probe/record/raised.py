"""Read the nature of a user's exception, and the tolerance of the check that raised it, from its frames.

Nothing is patched for this, since a patched comparison would change what Dynamo compiles.
"""

from __future__ import annotations

import ast
import linecache
import sys
from types import FrameType, TracebackType
from typing import Any

from repro_probe.protocol.findings import ExceptionNature

_COMPILER = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch._subclasses", "torch.fx")
#: Exceptions of these classes come from the machine, the network or the user's keyboard.
_MACHINE = (OSError, EOFError, KeyboardInterrupt)
_CALLERS = 8  # frames that are looked at for what a function was given
_DEPTH = 4  # how often a name is replaced by the expression that was assigned to it
#: Functions that read a clock: those of `time`, `timeit` and `datetime`, and of torch's events.
_CLOCKS = {
    *("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "process_time_ns"),
    *("time", "time_ns", "thread_time", "default_timer", "elapsed_time", "timeit", "now"),
}
#: Comparisons, with their default (rtol, atol). Those in `_RAISING` raise by themselves.
_RAISING = {"assert_close": (None, None), "assert_allclose": (1e-7, 0)}
_ASKED = {"allclose": (1e-5, 1e-8), "isclose": (1e-5, 1e-8), "equal": (0.0, 0.0), "array_equal": (0.0, 0.0)}
#: Attributes of a tensor that are no part of a result: how autograd and the memory keep it.
_NO_RESULTS = {"grad_fn", "data_ptr", "storage", "untyped_storage", "_version", "_cdata", "_backward_hooks"}
_PLAIN = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp),
    *(ast.operator, ast.unaryop, ast.Load),
)


def raising_frame(trace: TracebackType | None) -> tuple[FrameType, int] | None:
    """Return the innermost frame of `trace` and its line; None for a frame of the compiler, which checks no results.

    The files of the compiler are long, and to parse one takes as long as to compile a small function.
    """
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    in_compiler = any(module == name or module.startswith(f"{name}.") for name in _COMPILER)
    return None if in_compiler else (trace.tb_frame, trace.tb_lineno)


def nature_of(error: BaseException) -> ExceptionNature:
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
    """Return whether the condition that raised `error` depends on tensors, and whether it depends on a clock.

    What a function raises for its arguments is asked of the calling function, and what unittest raises of the test.
    """
    raising = raising_frame(error.__traceback__)
    if raising is None:
        return False, False
    frames = [raising, *_callers(error.__traceback__)]
    given: list[ast.expr] | None = None  # the arguments that the condition depends on
    for (frame, line), caller in zip(frames, [*frames[1:], None]):
        if _is_of_unittest(frame):
            named = set(_parameters(frame))
        else:
            try:
                expressions = _expressions(_nodes(frame), line, given)
            except (SyntaxError, ValueError):  # the user's file has changed, and is not Python any more
                return False, False
            variables = {**frame.f_globals, **frame.f_locals}
            clock = any(_called(node) in _CLOCKS for expression in expressions for node in ast.walk(expression))
            compares = _asks_for_values(expressions, variables)
            if compares or clock:
                return compares, clock
            named = set(_named(expressions)) & set(_parameters(frame))
        if caller is None or not named:
            break
        given = _arguments(caller, frame, named)
    return False, False


def _callers(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return the frames outside of the innermost one of `trace`, the inner ones first, up to the first of torch."""
    frames = []
    while trace is not None and trace.tb_next is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    found = []
    for frame, line in frames[: -_CALLERS - 1 : -1]:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "torch":
            break
        found.append((frame, line))
    return found


def _is_of_unittest(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("unittest.")


def _parameters(frame: FrameType) -> tuple[str, ...]:
    code = frame.f_code
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _arguments(caller: tuple[FrameType, int], called: FrameType, names: set[str]) -> list[ast.expr]:
    """Return what `caller` gives for the parameters `names` of the function of the frame `called`."""
    frame, line = caller
    if _is_of_unittest(frame):
        return []
    calls = [node for node in _nodes(frame) if _called(node) == called.f_code.co_name]
    call = next((node for node in calls if node.lineno <= line <= (node.end_lineno or 0)), None)
    if call is None:
        return []
    of_object = isinstance(call.func, ast.Attribute) and _parameters(called)[:1] == ("self",)
    pairs = [*zip(_parameters(called)[of_object:], call.args)]
    pairs += [(keyword.arg or "", keyword.value) for keyword in call.keywords]
    return [value for name, value in pairs if name in names]


def _asks_for_values(expressions: list[ast.expr], variables: dict[str, Any]) -> bool:
    """Whether `expressions` depend on the values of tensors, and not on a text that names a node of autograd."""
    values = [variables.get(name) for name in _named(expressions)]
    texts = [node for expression in expressions for node in ast.walk(expression) if _is_text(node)]
    written = [variables.get(name) for name in _named(texts)]
    if any(getattr(value, "grad_fn", None) is not None for value in written if _is_array(value)):
        return False
    if any(isinstance(value, str) and "grad_fn=<" in value for value in values):
        return False
    return any(map(_is_array, values))


def _is_text(node: ast.AST) -> bool:
    """Whether `node` makes a text of a value."""
    return isinstance(node, ast.FormattedValue) or _called(node) in ("str", "repr")


def _nodes(frame: FrameType) -> list[Any]:
    """Return the nodes of the file of `frame` that have a line, the last line first."""
    tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    return sorted((node for node in ast.walk(tree) if hasattr(node, "lineno")), key=lambda node: -node.lineno)


def _around(nodes: list[Any], line: int) -> list[ast.expr]:
    """Return the conditions around `line`, of assertions and ``if``, the innermost first."""
    conditional = [node for node in nodes if isinstance(node, (ast.Assert, ast.If))]
    return [node.test for node in conditional if node.lineno <= line <= (node.end_lineno or 0)]


def _expressions(nodes: list[Any], line: int, given: list[ast.expr] | None) -> list[ast.expr]:
    """Return what is `given`, or the condition around `line`, and what its names were assigned or are computed by."""
    expressions = _around(nodes, line)[:1] if given is None else list(given)
    assigned = [node for node in nodes if isinstance(node, (ast.Assign, ast.AugAssign)) and node.lineno < line]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    for _ in range(_DEPTH):
        names = set(_named(expressions))
        values = [node.value for node in assigned if names & set(_named(_targets(node)))]
        returns = [part for each in functions if each.name in names for part in ast.walk(each)]
        values += [part.value for part in returns if isinstance(part, ast.Return) and part.value is not None]
        expressions += [value for value in values if value not in expressions]
    return expressions


def _targets(node: Any) -> list[ast.expr]:
    return getattr(node, "targets", None) or [node.target]


def _called(node: ast.AST) -> str:
    """Return the last part of the name of the function that `node` calls; "" when `node` is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _named(nodes: list[Any]) -> list[str]:
    """Return the names in `nodes`, but for those of which a condition asks no result."""
    found: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Name):
            found.append(node.id)
        elif not (isinstance(node, ast.Attribute) and node.attr in _NO_RESULTS):
            found += _named(list(ast.iter_child_nodes(node)))
    return found


def _is_array(value: Any) -> bool:
    """Whether `value` is a tensor, an array, or a list of them."""
    if isinstance(value, (list, tuple)):
        return any(_is_array(item) for item in value[:3])
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    kinds = [getattr(torch, "Tensor", None), getattr(numpy, "ndarray", None), getattr(numpy, "generic", None)]
    return isinstance(value, tuple(kind for kind in kinds if kind is not None))


def stated_tolerance(error: BaseException) -> list[float] | None:
    """Return [rtol, atol] of the check that raised `error`; None when the check states no tolerance."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in frames[::-1]:
        usual = _RAISING.get(frame.f_code.co_name)
        if usual is not None and frame.f_globals.get("__name__", "").startswith(("torch.testing", "numpy.testing")):
            given = [frame.f_locals.get(name) for name in ("rtol", "atol")]
            return None if tuple(given) == usual or None in given else [float(number or 0.0) for number in given]
    raising = raising_frame(error.__traceback__)
    return _asked(*raising) if raising is not None else None


def _asked(frame: FrameType, line: int) -> list[float] | None:
    """Return [rtol, atol] of the comparison in the assertion or condition around `line`, or None."""
    try:
        call = _comparison(_nodes(frame), line)
        if call is None:
            return None
        usual = _ASKED[_called(call)]
        given: dict[str | None, ast.expr] = dict(zip(("rtol", "atol"), call.args[2:4]))
        given.update((keyword.arg, keyword.value) for keyword in call.keywords)
        if usual != (0.0, 0.0) and not {"rtol", "atol"} & set(given):
            return None
        pairs = zip(("rtol", "atol"), usual)
        return [float(_value(given[name], frame) if name in given else default) for name, default in pairs]
    except (SyntaxError, ValueError, TypeError, NameError, AttributeError):  # no Python, or the tolerance is no number
        return None


def _comparison(nodes: list[Any], line: int) -> ast.Call | None:
    """Return the comparison that decided: a call in the condition, or one assigned earlier to a name in it."""
    around = _around(nodes, line)
    names = set(_named(around))
    before = [node for node in nodes if isinstance(node, ast.Assign) and node.lineno < line]
    assigned = [node.value for node in before if any(getattr(target, "id", None) in names for target in node.targets)]
    calls = (node for expression in (*around, *assigned) for node in ast.walk(expression))
    return next((node for node in calls if isinstance(node, ast.Call) and _called(node) in _ASKED), None)


def _value(node: ast.expr, frame: FrameType) -> Any:
    if not all(isinstance(part, _PLAIN) for part in ast.walk(node)):
        raise ValueError("not a plain expression")
    return eval(compile(ast.Expression(node), "<tolerance>", "eval"), frame.f_globals, frame.f_locals)
