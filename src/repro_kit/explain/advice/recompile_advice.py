"""What to do about recompiles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from repro_kit.explain.advice.source_edits import edit, tree
from repro_kit.explain.context import Context, compiled_name, listed
from repro_kit.explain.sections.recompiles_section import times
from repro_kit.explain.suggestion import Aim, AppliedChange, SourceEdit, Suggestion
from repro_kit.trace.guard_text import Guard, whole_source
from repro_kit.trace.insights.dynamic_shapes import Block, SymbolOrigin
from repro_kit.trace.insights.recompiles import Reason, Recompiled
from repro_kit.trace.insights.specializations import Cause
from repro_kit.trace.places import is_torch

_SIZE = re.compile(r"^(?P<tensor>.+?)\.(?:size|stride)\(\)\[(?P<dim>\d+)\]$")
_RATE = re.compile(r"param_groups\[\d+\]\['lr'\]|\.lr\b|learning_rate")
_MOST_LIMIT = 64


def suggest(context: Context) -> Iterator[Suggestion]:
    """Dynamic sizes, what a setting keeps constant, numbers as tensors, then the limit."""
    for one in context.insights.recompiles:
        yield from _sizes(context, one)
        yield from _numbers(context, one)
        yield from _others(context, one)
    yield from _blocked(context)
    for one in context.insights.recompiles:
        yield from _limit(context, one)


def dynamic_source(source: str) -> str:
    """An entry of ``TORCH_COMPILE_DYNAMIC_SOURCES`` for `source`, which may be one size of a tensor."""
    found = _SIZE.match(source)
    tensor = whole_source(found["tensor"] if found else source)
    entry = re.sub(r"[\s,]", ".", tensor)  # they part the entries; an entry is a pattern too
    return f"{entry}:{found['dim']}" if found else entry


def changing_sizes(one: Recompiled) -> list[str]:
    """The sizes that changed between compiles of one function, as sources."""
    guarded = [reason.guard.source for reason in one.reasons if _mismatch(reason)]
    table = [source for source in one.values.sources if _SIZE.match(source)]
    chosen = table or [it for it in guarded if _SIZE.match(it)]
    return list(
        dict.fromkeys(it for it in chosen if "___" not in it)
    )  # torch's own names: of what a graph break leaves


def _sizes(context: Context, one: Recompiled) -> Iterator[Suggestion]:
    sizes = [source for source in changing_sizes(one) if not _is_settled(context, one, source)]
    if not sizes or not any(map(_mismatch, one.reasons)):
        return
    name = compiled_name(one.name)
    yield Suggestion(
        f"Make {listed(sizes, 2)} of `{name}` dynamic from the start",
        f"`{name}` was compiled {times(one)} times, as {'it' if len(sizes) == 1 else 'they'} changed",
        "recompiles",
        Aim.RECOMPILES,
        AppliedChange(env={"TORCH_COMPILE_DYNAMIC_SOURCES": ",".join(map(dynamic_source, sizes))}),
        place=context.place(one.code),
        note="it counts for every compiled function with an input of that name" + _marked(sizes),
        weight=one.count,
    )
    if len(one.compiles) > 2:
        yield Suggestion(
            "Compile with dynamic=True",
            f"`{name}` was compiled {times(one)} times for other sizes",
            "recompiles",
            Aim.RECOMPILES,
            AppliedChange(arguments={"dynamic": True}),
            place=context.place(one.code),
            note="as applied here, to every torch.compile of the script",
            weight=one.count - 0.5,
        )


def _mismatch(reason: Reason) -> bool:
    """Whether a size was another constant; a size that is compared with something is a symbol already."""
    return reason.size_related and reason.guard.kind == Guard.SIZE and bool(reason.guard.actual)


def _is_settled(context: Context, one: Recompiled, source: str) -> bool:
    """Whether a mark on `source` would change nothing: it was symbolic from the start, or a second size is 0 or 1."""
    insights = context.insights
    if any(
        symbol.origin == SymbolOrigin.DYNAMIC and symbol.source == source and symbol.code == one.code
        for symbol in insights.shapes.symbols
    ):
        return True
    constant = (
        specialization
        for specialization in insights.specializations
        if specialization.cause == Cause.ZERO_ONE and specialization.code == one.code
    )
    return len(one.compiles) <= 2 and any(source in it.sources for it in constant)


def _marked(sizes: Sequence[str]) -> str:
    """The same in code, for the arguments among `sizes`."""
    found = (re.match(r"^L\['(?P<name>\w+)'\]\.size\(\)\[(?P<dim>\d+)\]$", whole_source(size)) for size in sizes)
    calls = [f"torch._dynamo.maybe_mark_dynamic({it['name']}, {it['dim']})" for it in found if it]
    return f"; in code, before the call: {'; '.join(calls)}" if calls else ""


def _numbers(context: Context, one: Recompiled) -> Iterator[Suggestion]:
    for reason in one.reasons:
        guard = reason.guard
        if guard.kind != Guard.VALUE or not _is_float(guard.expected):
            continue
        name = compiled_name(one.name)
        if not guard.source or guard.source.startswith("___"):
            continue  # handed over at a graph break: that is what to mend
        rate = bool(_RATE.search(guard.source))
        what = "the learning rate" if rate else f"`{guard.source}`"
        how = "lr=torch.tensor(…)" if rate else f"torch.tensor({guard.expected})"
        yield Suggestion(
            f"Give {what} of `{name}` as a tensor: {how}",
            f"a float is a constant of the graph, and each new value a compile: {guard.text}{_times(reason)}",
            "recompiles",
            Aim.RECOMPILES,
            edit=_rate_edit(context) if rate else None,
            place=context.place(guard.where or one.code),
            weight=reason.count,
        )


#: What a guard of a kind asks of the caller: torch.compile has no setting that does it.
_ASKED = {
    Guard.VALUE: "Keep {source} the same between calls, or give each of its values a torch.compile of its own",
    Guard.DTYPE: "Give {source} in one dtype",
    Guard.DEVICE: "Give {source} on one device",
    Guard.GRAD: "Give {source} with one requires_grad, or call it under torch.no_grad() each time",
    Guard.RANK: "Give {source} with one number of dimensions",
    Guard.STRIDE: "Give {source} in one memory layout: .contiguous()",
    Guard.TYPE: "Give {source} as one type",
    Guard.IDENTITY: "Give the same object as {source} each time; a lambda, partial or module made anew is another one",
    Guard.PRESENCE: "Keep the keys and the length of {source} the same between calls",
    Guard.STATE: "Call it in one state of torch each time: grad mode, autocast, threads, default device and dtype",
    Guard.ALIASING: "Do not give one tensor as two arguments in some calls, and two tensors in others",
}


def _others(context: Context, one: Recompiled) -> Iterator[Suggestion]:
    """A branch on a size, and what is no matter of sizes or floats."""
    for reason in one.reasons:
        guard = reason.guard
        internal = not guard.source or guard.source.startswith("___")
        where = guard.where if guard.where and not is_torch(guard.where.file) else None
        if (
            guard.kind == Guard.SIZE
            and not guard.actual
            and where
            and "0/1" not in guard.note
            and "duck" not in guard.note
        ):
            what = f"Let `{where.code or context.line(where) or guard.text}` not decide on {guard.source}"
            note = "each side of it is a compile: torch.cond traces both, torch._check(…) tells torch which one it is"
        elif (
            guard.kind in _ASKED
            and not (internal and guard.kind != Guard.STATE)
            and not (guard.kind == Guard.VALUE and _is_number(guard.expected))
        ):
            what = _ASKED[guard.kind].format(source=f"`{guard.source}`")
            note = ""
        else:
            continue
        why = f"`{compiled_name(one.name)}` was compiled again for {guard.text}{_times(reason)}"
        place = context.place(where or one.code)
        yield Suggestion(what, why, "recompiles", Aim.RECOMPILES, place=place, note=note, weight=reason.count / 2)


def _rate_edit(context: Context) -> SourceEdit | None:
    """``lr=0.1`` in a call becomes ``lr=torch.tensor(0.1)``, where the user's files have one such call."""
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
    """What changes, and a setting keeps constant."""
    by_setting: dict[Block, list[str]] = {}
    for one in context.insights.shapes.blocked:
        by_setting.setdefault(one.setting, []).append(one.source)
    for setting, sources in by_setting.items():
        if setting == Block.STATIC:
            change = AppliedChange(arguments={"dynamic": None})
            what = "Leave out dynamic=False, so that torch may make sizes dynamic that change"
        else:
            value = setting == Block.INTEGER
            change = AppliedChange(config={f"dynamo.{setting.value.rpartition('.')[2]}": value})
            what = f"Set {setting.value} = {value}"
        yield Suggestion(
            what,
            f"{listed(sources)} changed at least twice, and {'stays' if len(sources) == 1 else 'stay'} constant by "
            "this setting",
            "shapes",
            Aim.RECOMPILES,
            change,
            weight=len(sources),
        )


def _limit(context: Context, one: Recompiled) -> Iterator[Suggestion]:
    if not one.hit:
        return
    total = one.limit > _MOST_LIMIT  # that of all compiles of a function, whatever object it is of
    wanted = 2 * one.limit if total else min(_MOST_LIMIT, max(2 * one.limit, one.count + 2))
    setting = "accumulated_recompile_limit" if total else "recompile_limit"
    yield Suggestion(
        f"Raise {setting} to {wanted}, if every one of these compiles is needed",
        f"`{compiled_name(one.name)}` hit the limit of {one.limit} compiles, and runs in eager where none fits",
        "recompiles",
        Aim.LIMIT_HITS,
        AppliedChange(config={f"dynamo.{setting}": wanted}),
        place=context.place(one.code),
        note="it costs compile time, and time to find the right graph at each call; fewer recompiles are better",
        weight=0.5,
    )


def _times(reason: Reason) -> str:
    return f" ×{reason.count}" if reason.count > 1 else ""


def _is_number(text: str) -> bool:
    return _is_float(text) or text.lstrip("+-").isdigit()


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.lstrip("+-").isdigit()
