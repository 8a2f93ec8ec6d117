"""Advice on failures, ranks, and graph breaks."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from repro_kit.explain.context import Context, counted, headline, plain_name
from repro_kit.explain.sections.compiles import advice_of, cost_of_break, title_of_break
from repro_kit.explain.suggestion import (
    Aim,
    AppliedChange,
    SourceEdit,
    Suggestion,
    branch_at,
    edit,
    indent,
    tree,
    without_branch,
)
from repro_kit.failure.messages import AT_THE_LIMIT
from repro_kit.trace.dynamo_text import GraphBreak
from repro_kit.trace.insights.ranks import GuardedValue, Parting
from repro_kit.trace.places import is_users

_BUILTIN = re.compile(r"^builtin (\w+)\b")
_SKIPPED = re.compile(r"module: (?P<module>[\w.]+|<[\w ]+>), qualname: (?P<name>[\w.<>]+)")
_SET = re.compile(r"Set `?torch\._dynamo\.config\.(?P<name>\w+) ?= ?(?P<value>True|False)\b")
_LOGGERS = ("debug", "info", "warning", "error", "exception", "critical", "log", "warn")
_EAGER = 3.0  # a function left to eager costs about as much as this many graphs
_REORDERED = "dynamo.reorderable_logging_functions"
_IGNORED = "dynamo.ignore_logging_functions"


def suggest_for_breaks(context: Context) -> Iterator[Suggestion]:
    """At most one suggestion for each break, and one for each line where only moving code helps."""
    moved: set[str] = set()
    own = any(one.where is not None and not _is_foreign(one) for one in context.insights.breaks)
    for graph_break in context.insights.breaks:
        if graph_break.opened or (_is_foreign(graph_break) and graph_break.caller is None and own):
            continue  # it goes with the break that opened it
        suggestion = next(filter(None, (rule(context, graph_break) for rule in _RULES)), None)
        if suggestion is None or (suggestion.change is None and suggestion.edit is None and suggestion.place in moved):
            continue
        moved.add(suggestion.place)
        if graph_break.caller is not None:
            why = f"{suggestion.why}; it is in {context.place(graph_break.where)}"
            suggestion = replace(suggestion, place=context.place(graph_break.caller), why=why)
        yield replace(suggestion, weight=graph_break.extra_graphs + (_EAGER if graph_break.skipped else 0))


def _is_foreign(graph_break: GraphBreak) -> bool:
    """Whether the break is in code that is not the user's."""
    return graph_break.where is not None and not is_users(graph_break.where.file)


def _print(context: Context, graph_break: GraphBreak) -> Suggestion | None:
    builtin = _BUILTIN.match(graph_break.context)
    if builtin is None or builtin[1] != "print":
        return None
    return Suggestion(
        "Let torch move `print` behind the graph",
        _why(context, graph_break),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(functions={_REORDERED: ("builtins.print",)}),
        place=context.place(graph_break.where),
        note="the text is printed after the graph has run, and a tensor that has changed by then with its new values",
    )


def _logging(context: Context, graph_break: GraphBreak) -> Suggestion | None:
    skipped = _SKIPPED.search(graph_break.context)
    if "logg" in graph_break.kind.lower() or (skipped and skipped["module"] == "logging"):
        method = next(
            (
                logger
                for logger in _LOGGERS
                if re.search(rf"\b{logger}\b", f"{graph_break.context} {_code(context, graph_break)}")
            ),
            "info",
        )
        return Suggestion(
            f"Leave out `Logger.{method}` in compiled code",
            _why(context, graph_break),
            "breaks",
            Aim.GRAPH_BREAKS,
            AppliedChange(functions={_IGNORED: (f"logging.Logger.{method}",)}),
            place=context.place(graph_break.where),
            note="those messages are then not written",
        )
    if skipped and skipped["module"] in ("warnings", "_warnings") and skipped["name"] == "warn":
        return Suggestion(
            "Let torch move `warnings.warn` behind the graph",
            _why(context, graph_break),
            "breaks",
            Aim.GRAPH_BREAKS,
            AppliedChange(functions={_REORDERED: ("warnings.warn",)}),
            place=context.place(graph_break.where),
        )
    return None


def _scalar(context: Context, graph_break: GraphBreak) -> Suggestion | None:
    if "capture_scalar_outputs" not in " ".join((graph_break.kind, graph_break.explanation, *graph_break.hints)):
        return None
    return Suggestion(
        "Capture `.item()` and `.tolist()` in the graph",
        _why(context, graph_break),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(env={"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}),
        place=context.place(graph_break.where),
        note="a branch on such a number still breaks the graph; torch._check(…) tells torch what it may assume",
    )


def _output_shape(context: Context, graph_break: GraphBreak) -> Suggestion | None:
    if "capture_dynamic_output_shape_ops" not in " ".join(
        (graph_break.kind, graph_break.explanation, *graph_break.hints)
    ):
        return None
    return Suggestion(
        "Capture operators whose output size depends on the data",
        _why(context, graph_break),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(env={"TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS": "1"}),
        place=context.place(graph_break.where),
    )


def _gradient(context: Context, graph_break: GraphBreak) -> Suggestion | None:
    if "trace_autograd_ops" not in " ".join((graph_break.kind, graph_break.explanation, *graph_break.hints)):
        return None
    return Suggestion(
        "Trace `torch.autograd.grad` and `backward()` in the graph",
        _why(context, graph_break),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(config={"dynamo.trace_autograd_ops": True}),
        place=context.place(graph_break.where),
    )


def _branch(context: Context, graph_break: GraphBreak) -> Suggestion | None:
    if not graph_break.kind.startswith("Data-dependent branching") or graph_break.where is None:
        return None
    module = tree(context, graph_break.where.file)
    branch = branch_at(module, graph_break.where.line) if module else None
    change = None
    if branch is not None:
        blanks = indent(context.lines(graph_break.where.file)[branch.first - 1])
        change = edit(context, graph_break.where.file, branch.first, branch.last, [blanks + without_branch(branch)])
    conditional = branch is None or branch.other is not None
    return Suggestion(
        f"Use `torch.{'cond' if conditional else 'where'}` instead of the `if` on a tensor",
        _why(context, graph_break),
        "breaks",
        Aim.GRAPH_BREAKS,
        edit=change,
        place=context.place(graph_break.where),
        note="both branches must give the same shapes and dtypes, and change nothing else"
        if conditional
        else "both values are then computed",
    )


def _disabled(context: Context, graph_break: GraphBreak) -> Suggestion | None:
    """A function that Dynamo cannot trace, called from inside the compiled function."""
    inner = len(graph_break.stack) > 1 and not _is_compiled_itself(context, graph_break)
    opaque = (
        _BUILTIN.match(graph_break.context)
        or _SKIPPED.search(graph_break.context)
        or "context manager" in graph_break.kind
    )
    if not opaque or graph_break.where is None:
        return None
    called = _BUILTIN.match(graph_break.context) or _SKIPPED.search(graph_break.context)
    name = (
        (called["name"] if called and "name" in called.groupdict() else called[1])
        if called
        else _code(context, graph_break)
    )
    change = _decorated(context, graph_break) if inner else None
    if change:
        return Suggestion(
            f"Keep `{graph_break.where.function}` out of compilation, so that only this function runs in eager",
            _why(context, graph_break),
            "breaks",
            Aim.GRAPH_BREAKS,
            edit=change,
            place=context.place(graph_break.where),
            note="one break stays; the function itself is then neither traced nor compiled",
        )
    return Suggestion(
        f"Call `{name}` outside of the compiled function, or make it a custom operator (torch.library.custom_op)"
        if called
        else f"Move `{name}` out of the compiled function",
        _why(context, graph_break),
        "breaks",
        Aim.GRAPH_BREAKS,
        place=context.place(graph_break.where),
    )


def _is_compiled_itself(context: Context, graph_break: GraphBreak) -> bool:
    """Whether each compile with the break is one of the very function that has the break."""
    compiled = {info.ref: info.code for info in context.insights.overview.compiles}
    codes = [compiled.get(ref) for ref in graph_break.compiles]
    name = graph_break.where.function if graph_break.where else ""
    return bool(codes) and all(code is not None and plain_name(code.function) == plain_name(name) for code in codes)


def _decorated(context: Context, graph_break: GraphBreak) -> SourceEdit | None:
    """``@torch.compiler.disable`` on the function with the break, if another function of the user calls it."""
    frames = [frame for frame in graph_break.stack if context.lines(frame.file)]
    if len(frames) < 3 or graph_break.where is None or frames[-2].function == "<module>":
        return None
    module = tree(context, graph_break.where.file)
    name = graph_break.where.function
    if module is None:
        return None
    namesakes = [
        function for function in ast.walk(module) if isinstance(function, ast.FunctionDef) and function.name == name
    ]
    holder = next(
        (function for function in namesakes if function.lineno <= graph_break.where.line <= (function.end_lineno or 0)),
        None,
    )
    if holder is None or holder.decorator_list or name in ("forward", "__call__"):
        return None
    line = context.lines(graph_break.where.file)[holder.lineno - 1]
    return edit(
        context, graph_break.where.file, holder.lineno, holder.lineno, [indent(line) + "@torch.compiler.disable", line]
    )


def _hinted(context: Context, graph_break: GraphBreak) -> Suggestion | None:
    hints = advice_of(graph_break)
    if not hints:
        return None
    setting = _SET.match(hints[0])
    return Suggestion(
        hints[0],
        _why(context, graph_break),
        "breaks",
        Aim.GRAPH_BREAKS,
        AppliedChange(config={f"dynamo.{setting['name']}": setting["value"] == "True"}) if setting else None,
        place=context.place(graph_break.where),
    )


_RULES: tuple[Callable[[Context, GraphBreak], Suggestion | None], ...] = (
    _print, _logging, _scalar, _output_shape, _gradient, _branch, _disabled, _hinted,
)  # fmt: skip


def _why(context: Context, graph_break: GraphBreak) -> str:
    times = f" ×{graph_break.count}" if graph_break.count > 1 else ""
    costs = cost_of_break(context, graph_break)
    return f"{title_of_break(graph_break)}{times}" + (f"; costs: {costs}" if costs else "")


def _code(context: Context, graph_break: GraphBreak) -> str:
    return (graph_break.where.code or context.line(graph_break.where)) if graph_break.where else ""


#: Files of torch with the forward of a wrapper.
_WRAPPERS = {"nn/parallel/distributed.py": "DDP", "fsdp/fully_sharded_data_parallel.py": "FSDP"}


def suggest_for_runs(context: Context) -> Iterator[Suggestion]:
    """Suggestions for failures first."""
    insights = context.insights
    for failure in insights.failures:
        if failure.type == AT_THE_LIMIT:  # the advice on recompiles says how to avoid it
            continue
        soft = failure.soft
        yield Suggestion(
            "Leave out fullgraph=True, or fix the graph break"
            if soft
            else "Collect the failure: repro-kit collect SCRIPT",
            f"{failure.type}: {headline(failure.reason)[:200]}",
            "failures",
            Aim.FAILURES,
            AppliedChange(arguments={"fullgraph": False}) if soft else None,
            place=context.place(failure.where),
            untried="needs an edit" if soft else "another command",
            weight=40.0,
        )
    branch = _branch_on_rank(insights.parting)
    differing = {
        compile_id
        for divergence in insights.ranks.divergences
        if divergence.what not in ("code", "order")
        for compile_id in divergence.compile_ids
    }
    if branch is not None:
        yield Suggestion(
            "Let every rank run the same code, or leave what differs out of the compiled function",
            f"{branch.source} is {' and '.join(branch.values)}; a rank that runs other collectives makes others wait",
            "ranks",
            Aim.RECOMPILES,
            place=context.place(branch.where),
            untried="needs an edit",
            weight=len(differing),
        )
    elif differing:
        yield Suggestion(
            "Let the ranks agree on what is dynamic",
            f"{counted(len(differing), 'compile')} of {len(insights.ranks.ranks)} ranks differ, "
            "and the other ranks wait while one rank compiles",
            "ranks",
            Aim.RECOMPILES,
            AppliedChange(env={"TORCH_COMPILER_COLLECTIVES": "1"}),
            weight=len(differing),
        )
    yield from _wrapped(context)


def _branch_on_rank(parting: Parting | None) -> GuardedValue | None:
    """The first value, no size of a tensor, that sends two ranks to different statements."""
    if parting is None or parting.statements == (None, None):
        return None
    return next((value for value in parting.values if not value.sized), None)


def _wrapped(context: Context) -> Iterator[Suggestion]:
    """A compiled DDP or FSDP module with graph breaks."""
    if not context.insights.breaks:
        return
    files = {compile_.code.file for compile_ in context.insights.overview.compiles if compile_.code}
    for file, name in _WRAPPERS.items():
        if any(compiled_file.endswith(file) for compiled_file in files):
            yield Suggestion(
                f"Compile the module inside {name}: {name}(torch.compile(model)), not torch.compile({name}(model))",
                f"{name}'s own forward was compiled, and the graph breaks",
                "breaks",
                Aim.GRAPH_BREAKS,
            )
