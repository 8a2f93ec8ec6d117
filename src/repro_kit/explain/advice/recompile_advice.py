"""Advice on recompiles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from repro_kit.explain.context import Context, compiled_name, is_resumed, listed
from repro_kit.explain.sections.compiles import after_the_limit, times_compiled
from repro_kit.explain.suggestion import Aim, AppliedChange, SourceEdit, Suggestion, edit, tree
from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import Guard, GuardText, whole_source
from repro_kit.trace.insights.dynamic_shapes import Block, SymbolOrigin
from repro_kit.trace.insights.recompiles import OLDER_NAME, Reason, Recompiled
from repro_kit.trace.insights.specializations import Cause
from repro_kit.trace.places import CompileRef, is_torch

_SIZE = re.compile(r"^(?P<tensor>.+?)\.(?:size|stride)\(\)\[(?P<dim>\d+)\]$")
_RATE = re.compile(r"param_groups\[\d+\]\['lr'\]|\.lr\b|learning_rate")
_MOST_LIMIT = 64
#: Added to the weight of a setting that keeps values constant: a mark on each value only works around the setting.
_BEFORE_OTHERS = 0.5


def suggest_for_recompiles(context: Context) -> Iterator[Suggestion]:
    """Suggest dynamic sizes, settings to change, numbers as tensors, then a higher limit."""
    given = _given(context.insights.recompiles)
    for recompiled in context.insights.recompiles:
        yield from _sizes(context, recompiled)
        yield from _numbers(context, recompiled)
        yield from _others(context, recompiled, given)
    yield from _blocked(context)
    for recompiled in context.insights.recompiles:
        yield from _limit(context, recompiled)


def dynamic_source(source: str) -> str:
    """An entry of ``TORCH_COMPILE_DYNAMIC_SOURCES`` for `source`, which may be one size of a tensor."""
    size = _SIZE.match(source)
    tensor = whole_source(size["tensor"] if size else source)
    entry = re.sub(
        r"[\s,]", ".", tensor
    )  # blanks and commas separate entries; an entry is a pattern, so a dot matches them
    return f"{entry}:{size['dim']}" if size else entry


def changing_sizes(recompiled: Recompiled) -> list[str]:
    """The sizes that changed between compiles of one function, as sources."""
    guarded = [reason.guard.source for reason in recompiled.reasons if _mismatch(reason)]
    table = [source for source in recompiled.values.sources if _is_size(source)]
    chosen = table or [source for source in guarded if _is_size(source)]
    return list(
        dict.fromkeys(source for source in chosen if "___" not in source)
    )  # torch's own names: of what a graph break leaves


def _is_size(source: str) -> bool:
    return bool(_SIZE.match(source)) and ".stride()[" not in source


def _sizes(context: Context, recompiled: Recompiled) -> Iterator[Suggestion]:
    sizes = [source for source in changing_sizes(recompiled) if not _is_settled(context, recompiled, source)]
    if not sizes or not any(map(_mismatch, recompiled.reasons)):
        return
    name = compiled_name(recompiled.name)
    caused = _caused(filter(_mismatch, recompiled.reasons)) or recompiled.count
    because = f"because {'this size' if len(sizes) == 1 else 'these sizes'} changed"
    share = "" if caused >= recompiled.count else "once " if caused == 1 else f"{caused} times "
    old = recompiled.setting == OLDER_NAME  # that torch has no variable that makes sizes dynamic
    sources = AppliedChange(env={"TORCH_COMPILE_DYNAMIC_SOURCES": ",".join(map(dynamic_source, sizes))})
    marked = _marked(sizes)
    everywhere = "this applies to every compiled function with an input of that name"
    by_hand = marked or "mark the input with torch._dynamo.mark_dynamic before the call"
    yield Suggestion(
        f"Make {listed(sizes, 2)} of `{name}` dynamic from the start",
        f"`{name}` was compiled {times_compiled(recompiled)} times, {share}{because}",
        "recompiles",
        Aim.RECOMPILES,
        None if old else sources,
        place=context.place(recompiled.code),
        note=by_hand if old else "; ".join(filter(None, (everywhere, marked))),
        weight=caused,
    )
    if len(recompiled.compiles) > 2:
        yield Suggestion(
            "Compile with dynamic=True",
            f"`{name}` was compiled {times_compiled(recompiled)} times, {share}{because}",
            "recompiles",
            Aim.RECOMPILES,
            AppliedChange(arguments={"dynamic": True}),
            place=context.place(recompiled.code),
            note="the trial applies it to every torch.compile of the script",
            weight=caused - 0.5,
        )


def _caused(reasons: Iterable[Reason]) -> int:
    """How many recompiles the guards caused: a later recompile may fail the guards of all earlier compiles."""
    return len({compile_ref for reason in reasons for compile_ref in reason.compiles})


def _mismatch(reason: Reason) -> bool:
    """Whether a constant size differed; a size that is compared with something is a symbol already."""
    return not reason.remote and reason.size_related and reason.guard.kind == Guard.SIZE and bool(reason.guard.actual)


def _is_settled(context: Context, recompiled: Recompiled, source: str) -> bool:
    """Whether marking `source` would change nothing: it was always symbolic, or a second size is 0 or 1."""
    insights = context.insights
    if any(
        symbol.origin == SymbolOrigin.DYNAMIC and symbol.source == source and symbol.code == recompiled.code
        for symbol in insights.shapes.symbols
    ):
        return True
    constant = (
        specialization
        for specialization in insights.specializations
        if specialization.cause == Cause.ZERO_ONE and specialization.code == recompiled.code
    )
    return len(recompiled.compiles) <= 2 and any(source in specialization.sources for specialization in constant)


def _marked(sizes: Sequence[str]) -> str:
    """The code that marks the arguments among `sizes`."""
    matches = (re.match(r"^L\['(?P<name>\w+)'\]\.size\(\)\[(?P<dim>\d+)\]$", whole_source(size)) for size in sizes)
    calls = [f"torch._dynamo.maybe_mark_dynamic({match['name']}, {match['dim']})" for match in matches if match]
    return f"in code, before the call: {'; '.join(calls)}" if calls else ""


def _numbers(context: Context, recompiled: Recompiled) -> Iterator[Suggestion]:
    for reason in recompiled.reasons:
        guard = reason.guard
        if guard.kind != Guard.VALUE or not _is_float(guard.expected) or reason.remote:
            continue
        name = compiled_name(recompiled.name)
        if not guard.source or guard.source.startswith("___"):
            continue  # passed on at a graph break, so the break needs a fix
        rate = bool(_RATE.search(guard.source))
        subject = "the learning rate" if rate else f"`{guard.source}`"
        how = "lr=torch.tensor(…)" if rate else f"torch.tensor({guard.expected})"
        yield Suggestion(
            f"Give {subject} of `{name}` as a tensor: {how}",
            f"a float is a constant of the graph, so each new value is compiled again: {guard.text}{_times(reason)}",
            "recompiles",
            Aim.RECOMPILES,
            edit=_rate_edit(context) if rate else None,
            place=context.place(guard.where or recompiled.code),
            weight=reason.count,
        )


#: What the caller can change for each kind of guard, where torch.compile has no setting.
_ASKED = {
    Guard.VALUE: "Keep {source} the same between calls, or give each of its values a torch.compile of its own",
    Guard.DTYPE: "Give {source} in one dtype",
    Guard.DEVICE: "Give {source} on one device",
    Guard.GRAD: "Give {source} with one requires_grad, or call it under torch.no_grad() each time",
    Guard.DISPATCH: "Make {source} in one mode each time, inside or outside of torch.inference_mode()",
    Guard.RANK: "Give {source} with one number of dimensions",
    Guard.STRIDE: "Give {source} in one memory layout: .contiguous()",
    Guard.TYPE: "Give {source} as one type",
    Guard.IDENTITY: "Give the same object as {source} each time; a new lambda, partial or module is a different object",
    Guard.PRESENCE: "Keep the keys and the length of {source} the same between calls",
    Guard.STATE: "Call it in one state of torch each time: grad mode, autocast, threads, default device and dtype",
    Guard.ALIASING: "Do not give one tensor as two arguments in some calls, and two tensors in others",
}
_CONSTANT = "Keep `{source}` the same between calls, or hold it in a tensor: each value of it is a constant of a graph"
_TWICE = 2  # changes after which torch makes an integer argument dynamic


#: How a tensor may differ between calls, so that what is computed from the tensor differs in the same way.
_OF_TENSORS = (Guard.DTYPE, Guard.DEVICE, Guard.RANK, Guard.STRIDE)


def _given(recompiles: Iterable[Recompiled]) -> dict[tuple[str, str, str], tuple[Recompiled, GuardText]]:
    """For each change of a tensor (kind, expected, actual) the first function that is given such a tensor."""
    changes = [
        (recompiled, reason.guard)
        for recompiled in recompiles
        if not is_resumed(recompiled.name)
        for reason in recompiled.reasons
        if reason.guard.kind in _OF_TENSORS
    ]
    return {_change(guard): (recompiled, guard) for recompiled, guard in reversed(changes)}


def _change(guard: GuardText) -> tuple[str, str, str]:
    return guard.kind, guard.expected, guard.actual


def _others(
    context: Context, recompiled: Recompiled, given: Mapping[tuple[str, str, str], tuple[Recompiled, GuardText]]
) -> Iterator[Suggestion]:
    """Branches on a size, and guards that are about neither sizes nor floats.

    `given`: from which arguments tensors in the code after a graph break may have their dtype, device or layout.
    """
    explained: dict[str, set[CompileRef]] = {}
    for reason in recompiled.reasons:
        if reason.remote:
            continue
        changed, guard = recompiled, reason.guard
        if is_resumed(recompiled.name):
            changed, guard = given.get(_change(guard), (changed, guard))
        asked = _asked(context, changed, guard)
        if asked is None:
            continue
        advice, note = asked
        before = explained.setdefault(advice, set())  # a later recompile has the guards of all earlier compiles
        compiles = set(reason.compiles) - before
        before |= compiles
        yield Suggestion(
            advice,
            f"`{compiled_name(recompiled.name)}` was compiled again for {reason.guard.text}{_times(reason)}",
            "recompiles",
            Aim.RECOMPILES,
            place=context.place(_users_line(guard) or changed.code),
            note=note,
            weight=(len(compiles) if reason.compiles else reason.count) / 2,
        )


def _asked(context: Context, recompiled: Recompiled, guard: GuardText) -> tuple[str, str] | None:
    """What the caller can change, and a note on it; None where another rule knows better."""
    if guard.kind == Guard.SIZE:
        where = _users_line(guard)
        if guard.actual or not where or "0/1" in guard.note or "duck" in guard.note:
            return None
        line = where.code or context.line(where) or guard.text
        note = "each side is a separate compile: torch.cond traces both, torch._check(…) says which side holds"
        return f"Do not let `{line}` depend on {guard.source}", note
    internal = not guard.source or "___" in guard.source
    if guard.kind not in _ASKED or (internal and guard.kind != Guard.STATE):
        return None
    if guard.kind == Guard.VALUE and _is_number(guard.expected):
        note = "with dynamic=False, which a text does not tell, leave that out first" if context.insights.text else ""
        return (_CONSTANT.format(source=guard.source), note) if _stays_constant(context, recompiled, guard) else None
    tensor = _SIZE.match(guard.source) if guard.kind == Guard.STRIDE else None
    return _ASKED[guard.kind].format(source=f"`{tensor['tensor'] if tensor else guard.source}`"), ""


def _stays_constant(context: Context, recompiled: Recompiled, guard: GuardText) -> bool:
    """Whether torch keeps an integer constant that has changed twice, and no setting is why."""
    sources = recompiled.values.sources
    at = sources.index(guard.source) if guard.source in sources else -1
    values = {row.values[at] for row in recompiled.values.rows} - {""} if at >= 0 else set()
    blocked = [one.source for one in context.insights.shapes.blocked]
    return len(values) > _TWICE and guard.source not in blocked and not _is_float(guard.expected)


def _users_line(guard: GuardText) -> Frame | None:
    where = guard.where
    return where if where and not is_torch(where.file) else None


def _rate_edit(context: Context) -> SourceEdit | None:
    """Replace ``lr=0.1`` by ``lr=torch.tensor(0.1)``, if the user's files have exactly one such call."""
    frames = [node.frame for node in context.insights.overview.tree]
    rates = [(file, rate) for file in dict.fromkeys(frame.file for frame in frames) for rate in _rates(context, file)]
    if len(rates) != 1:
        return None
    ((file, value),) = rates
    if not isinstance(value, ast.Constant | ast.Name | ast.Attribute) or value.lineno != value.end_lineno:
        return None
    raw = context.lines(file)[value.lineno - 1].encode()
    start, end = value.col_offset, value.end_col_offset or 0
    new = raw[:start] + b"torch.tensor(" + raw[start:end] + b")" + raw[end:]
    return edit(context, file, value.lineno, value.lineno, [new.decode()])


def _rates(context: Context, file: str) -> list[ast.expr]:
    module = tree(context, file)
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)] if module else []
    return [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "lr"]


def _blocked(context: Context) -> Iterator[Suggestion]:
    """Sizes and numbers that change, but that a setting keeps constant."""
    by_setting: dict[Block, list[str]] = {}
    for blocked in context.insights.shapes.blocked:
        by_setting.setdefault(blocked.setting, []).append(blocked.source)
    for setting, sources in by_setting.items():
        if setting == Block.STATIC:
            change = AppliedChange(arguments={"dynamic": None})
            advice = "Leave out dynamic=False, so that torch can make changing sizes dynamic"
        else:
            value = setting == Block.INTEGER
            change = AppliedChange(config={f"dynamo.{setting.value.rpartition('.')[2]}": value})
            advice = f"Set {setting.value} = {value}"
        yield Suggestion(
            advice,
            f"{listed(sources)} changed at least twice, but this setting keeps "
            f"{'the value' if len(sources) == 1 else 'the values'} constant",
            "shapes",
            Aim.RECOMPILES,
            change,
            weight=max(len(sources), _caused(_about(context, sources))) + _BEFORE_OTHERS,
        )


def _about(context: Context, sources: Sequence[str]) -> Iterator[Reason]:
    """The guards on `sources`, or on the sizes of these tensors, that failed."""
    for recompiled in context.insights.recompiles:
        for reason in recompiled.reasons:
            whole = whole_source(reason.guard.source)
            if any(whole == source or whole.startswith(f"{source}.size()") for source in sources):
                yield reason


def _limit(context: Context, recompiled: Recompiled) -> Iterator[Suggestion]:
    if not recompiled.hit:
        return
    total = recompiled.limit > _MOST_LIMIT  # the limit for all compiles of a function together
    wanted = 2 * recompiled.limit if total else min(_MOST_LIMIT, max(2 * recompiled.limit, recompiled.count + 2))
    setting = f"accumulated_{recompiled.setting}" if total else recompiled.setting
    yield Suggestion(
        f"Raise {setting} to {wanted}, if every one of these compiles is needed",
        f"`{compiled_name(recompiled.name)}` hit the limit of {recompiled.limit} compiles: "
        + after_the_limit(context, recompiled),
        "recompiles",
        Aim.LIMIT_HITS,
        AppliedChange(config={f"dynamo.{setting}": wanted}),
        place=context.place(recompiled.code),
        note="more graphs cost compile time, and time to choose a graph at each call; fewer recompiles are better",
        weight=0.5,
    )


def _times(reason: Reason) -> str:
    times = len(reason.compiles) or reason.count
    return f" ×{times}" if times > 1 else ""


def _is_number(text: str) -> bool:
    return _is_float(text) or text.lstrip("+-").isdigit()


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.lstrip("+-").isdigit()
