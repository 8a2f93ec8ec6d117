"""What to do about graph breaks."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from repro_kit.explain.advice.source_edits import branch_at, edit, indent, tree, without_branch
from repro_kit.explain.context import Context
from repro_kit.explain.sections.breaks_section import advice_of, cost, title
from repro_kit.explain.suggestion import Aim, AppliedChange, SourceEdit, Suggestion
from repro_kit.trace.break_text import GraphBreak

_BUILTIN = re.compile(r"^builtin (\w+)\b")
_SKIPPED = re.compile(r"module: (?P<module>[\w.]+), qualname: (?P<name>[\w.<>]+)")
_LOGGERS = ("debug", "info", "warning", "error", "exception", "critical", "log", "warn")
_EAGER = 3.0  # a function that is left to eager costs about as much as so many graphs
_REORDERED = "dynamo.reorderable_logging_functions"
_IGNORED = "dynamo.ignore_logging_functions"


def suggest(context: Context) -> Iterator[Suggestion]:
    """At most one suggestion a break; of several at one line that nothing but moving code helps, one."""
    moved: set[str] = set()
    for one in context.insights.breaks:
        found = next(filter(None, (rule(context, one) for rule in _RULES)), None)
        if found is None or (found.change is None and found.edit is None and found.place in moved):
            continue
        moved.add(found.place)
        yield replace(found, weight=one.extra_graphs + (_EAGER if one.skipped else 0))


def _print(context: Context, one: GraphBreak) -> Suggestion | None:
    builtin = _BUILTIN.match(one.context)
    if builtin is None or builtin[1] != "print":
        return None
    return Suggestion(
        "Let torch move `print` behind the graph",
        _why(context, one),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(functions={_REORDERED: ("builtins.print",)}),
        place=context.place(one.where),
        note="what it prints comes after the graph has run; a tensor that is changed in between shows its new values",
    )


def _logging(context: Context, one: GraphBreak) -> Suggestion | None:
    skipped = _SKIPPED.search(one.context)
    if "logg" in one.kind.lower() or (skipped and skipped["module"] == "logging"):
        method = next(
            (it for it in _LOGGERS if re.search(rf"\b{it}\b", f"{one.context} {_code(context, one)}")), "info"
        )
        return Suggestion(
            f"Leave out `Logger.{method}` in compiled code",
            _why(context, one),
            "breaks",
            Aim.GRAPH_BREAKS,
            AppliedChange(functions={_IGNORED: (f"logging.Logger.{method}",)}),
            place=context.place(one.where),
            note="those messages are not written then",
        )
    if skipped and skipped["module"] in ("warnings", "_warnings") and skipped["name"] == "warn":
        return Suggestion(
            "Let torch move `warnings.warn` behind the graph",
            _why(context, one),
            "breaks",
            Aim.GRAPH_BREAKS,
            AppliedChange(functions={_REORDERED: ("warnings.warn",)}),
            place=context.place(one.where),
        )
    return None


def _scalar(context: Context, one: GraphBreak) -> Suggestion | None:
    if "capture_scalar_outputs" not in " ".join((one.kind, one.explanation, *one.hints)):
        return None
    return Suggestion(
        "Capture `.item()` in the graph",
        _why(context, one),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(env={"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}),
        place=context.place(one.where),
        note="a branch on such a number still breaks the graph; torch._check(…) tells torch what may be assumed of it",
    )


def _output_shape(context: Context, one: GraphBreak) -> Suggestion | None:
    if "capture_dynamic_output_shape_ops" not in " ".join((one.kind, one.explanation, *one.hints)):
        return None
    return Suggestion(
        "Capture operators whose output size depends on the data",
        _why(context, one),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(env={"TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS": "1"}),
        place=context.place(one.where),
    )


def _gradient(context: Context, one: GraphBreak) -> Suggestion | None:
    if "trace_autograd_ops" not in " ".join((one.kind, one.explanation, *one.hints)):
        return None
    return Suggestion(
        "Trace `torch.autograd.grad` and `backward()` in the graph",
        _why(context, one),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(config={"dynamo.trace_autograd_ops": True}),
        place=context.place(one.where),
    )


def _branch(context: Context, one: GraphBreak) -> Suggestion | None:
    if not one.kind.startswith("Data-dependent branching") or one.where is None:
        return None
    module = tree(context, one.where.file)
    branch = branch_at(module, one.where.line) if module else None
    change = None
    if branch is not None:
        blanks = indent(context.lines(one.where.file)[branch.first - 1])
        change = edit(context, one.where.file, branch.first, branch.last, [blanks + without_branch(branch)])
    conditional = branch is None or branch.other is not None
    return Suggestion(
        f"Choose with `torch.{'cond' if conditional else 'where'}` in place of the `if` on a tensor",
        _why(context, one),
        "breaks",
        Aim.GRAPH_BREAKS,
        edit=change,
        place=context.place(one.where),
        note="both branches must give the same shapes and dtypes, and change nothing else"
        if conditional
        else "both values are computed then",
    )


def _disabled(context: Context, one: GraphBreak) -> Suggestion | None:
    """A function that Dynamo cannot enter, called where it is not the compiled function itself."""
    inner = one.stack[-1] if len(one.stack) > 1 else None
    opaque = _BUILTIN.match(one.context) or _SKIPPED.search(one.context) or "context manager" in one.kind
    if not opaque or one.where is None:
        return None
    called = _BUILTIN.match(one.context) or _SKIPPED.search(one.context)
    name = (called["name"] if called and "name" in called.groupdict() else called[1]) if called else _code(context, one)
    change = _decorated(context, one) if inner else None
    if change:
        return Suggestion(
            f"Keep `{one.where.function}` out of compilation, so that only it runs in eager",
            _why(context, one),
            "breaks",
            Aim.GRAPH_BREAKS,
            edit=change,
            place=context.place(one.where),
            note="one break stays; the function itself is no longer traced, and none of it is compiled",
        )
    return Suggestion(
        f"Call `{name}` outside of the compiled function, or make it a custom operator (torch.library.custom_op)",
        _why(context, one),
        "breaks",
        Aim.GRAPH_BREAKS,
        place=context.place(one.where),
    )


def _decorated(context: Context, one: GraphBreak) -> SourceEdit | None:
    """``@torch.compiler.disable`` on the function that holds the break, when another one of the user's calls it."""
    frames = [frame for frame in one.stack if context.lines(frame.file)]
    if len(frames) < 3 or one.where is None or frames[-2].function == "<module>":
        return None
    module = tree(context, one.where.file)
    name = one.where.function
    if module is None:
        return None
    found = [it for it in ast.walk(module) if isinstance(it, ast.FunctionDef) and it.name == name]
    holder = next((it for it in found if it.lineno <= one.where.line <= (it.end_lineno or 0)), None)
    if holder is None or holder.decorator_list or name in ("forward", "__call__"):
        return None
    line = context.lines(one.where.file)[holder.lineno - 1]
    return edit(context, one.where.file, holder.lineno, holder.lineno, [indent(line) + "@torch.compiler.disable", line])


def _hinted(context: Context, one: GraphBreak) -> Suggestion | None:
    hints = advice_of(one)
    if not hints:
        return None
    return Suggestion(hints[0], _why(context, one), "breaks", Aim.GRAPH_BREAKS, place=context.place(one.where))


_RULES: tuple[Callable[[Context, GraphBreak], Suggestion | None], ...] = (
    _print, _logging, _scalar, _output_shape, _gradient, _branch, _disabled, _hinted,
)  # fmt: skip


def _why(context: Context, one: GraphBreak) -> str:
    times = f" ×{one.count}" if one.count > 1 else ""
    costs = cost(context, one)
    return f"{title(one)}{times}" + (f"; costs: {costs}" if costs else "")


def _code(context: Context, one: GraphBreak) -> str:
    return (one.where.code or context.line(one.where)) if one.where else ""
