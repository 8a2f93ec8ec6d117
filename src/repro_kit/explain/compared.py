"""The differences between two traces, in sentences and sections."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.explain.context import Context, compiled_name, counted, listed, seconds
from repro_kit.explain.report import Block, ExplainReport, Item, Section, Sentence, Table, Words
from repro_kit.trace.trace_diff import Fate, FrameChange, Seconds, TraceChange, TraceDifference

_ROWS = 60
#: Groups of changes: field, title, noun for one change.
_GROUPS = (
    ("failures", "Failures", "failure"),
    ("breaks", "Graph breaks", "graph break"),
    ("specializations", "Specializations", "specialization"),
    ("settings", "Settings", "setting"),
    ("versions", "Versions", "version"),
    ("caches", "Caches", "cache"),
    ("guards", "Guards", "guard"),
)


def report(difference: TraceDifference, context: Context, names: tuple[str, str]) -> ExplainReport:
    """The differences between the traces `names` (before, after); `context` belongs to the second."""
    sections = [_frames(context, difference.frames)]
    left = {"guards": difference.guards_left_out}
    sections += [_changes(name, title, getattr(difference, name), left.get(name, 0)) for name, title, _ in _GROUPS]
    sections.append(_times(difference.phases))
    return ExplainReport(" against ".join(reversed(names)), tuple(_sentences(context, difference)), tuple(sections))


def _sentences(context: Context, difference: TraceDifference) -> list[Sentence]:
    sentences_ = [_compiled(context, difference.frames)] if difference.frames else []
    for name, _, noun in _GROUPS[:5]:
        changes: Sequence[TraceChange] = getattr(difference, name)
        if changes:
            examples = listed((_described(change) for change in changes), 2)
            many = counted(len(changes), f"{noun} differs", f"{noun}s differ")
            sentences_.append(Sentence("✗" if name == "failures" else "!", f"{many}: {examples}.", name))
    if not sentences_:
        sentences_.append(Sentence("✓", "The same functions were compiled to the same graphs."))
    whole = next((phase for phase in difference.phases if phase.phase == "all"), None)
    if whole and (whole.before or whole.after):
        time = f"Compile time: {seconds(whole.before)} → {seconds(whole.after)}{_most(difference.phases)}."
        sentences_ = [*sentences_[:4], Sentence("·", time, "times")]
    return sentences_


def _compiled(context: Context, frames: Sequence[FrameChange]) -> Sentence:
    words = []
    for fate in Fate:
        names = [
            f"`{compiled_name(frame.name)}`" for frame in frames if frame.fate == fate and not frame.recompiles_more
        ]
        words += [f"{listed(names, 3)} {fate}"] if names else []
    more = [frame for frame in frames if frame.recompiles_more]
    words += [
        f"`{compiled_name(frame_change.name)}` is compiled {len(frame_change.before)} → {len(frame_change.after)} times"
        for frame_change in more[:3]
    ]
    return Sentence(
        "!", f"{counted(len(frames), 'function differs', 'functions differ')}: {'; '.join(words)}.", "frames"
    )


def _most(phases: Sequence[Seconds]) -> str:
    inner = [phase for phase in phases if phase.phase != "all"]
    largest = max(inner, key=lambda phase: abs(phase.after - phase.before), default=None)
    if largest is None or seconds(largest.before) == seconds(largest.after):
        return ""
    return f", most of it in {largest.phase} ({seconds(largest.before)} → {seconds(largest.after)})"


def _described(change: TraceChange) -> str:
    if change.fate is Fate.CHANGED:
        return f"{change.what}: {change.before} → {change.after}"
    return f"{change.what} {change.fate}"


def _frames(context: Context, frames: Sequence[FrameChange]) -> Section:
    items = []
    for frame in frames:
        blocks: list[Block] = [Words(f"compiles: {_states(frame.before)} → {_states(frame.after)}")]
        if frame.graphs_differ and frame.before and frame.after:
            blocks.append(Words(f"the graphs differ: {frame.ops[0]} → {frame.ops[1]} ops"))
        blocks += [Words(f"compiled again for {reason}") for reason in frame.reasons]
        source_line = context.place(frame.code)
        items.append(
            Item(f"{compiled_name(frame.name)}: {frame.fate}", (source_line,) if source_line else (), tuple(blocks))
        )
    return Section("frames", "Functions", counted(len(items), "difference") if items else "the same", tuple(items))


def _states(states: Sequence[str]) -> str:
    return listed(states) if states else "none"


def _changes(name: str, title: str, changes: Sequence[TraceChange], left_out: int) -> Section:
    if not changes:
        return Section(name, title, "the same")
    rows = [(str(change.fate), change.what, change.before, change.after) for change in changes[:_ROWS]]
    total = len(changes) + left_out
    if total > len(rows):
        rows.append(("", f"… {total - len(rows)} more", "", ""))
    table = Table(("", "what", "before", "after"), tuple(rows))
    return Section(name, title, counted(total, "difference"), (Item(title, blocks=(table,)),))


def _times(phases: Sequence[Seconds]) -> Section:
    rows = tuple((phase.phase, seconds(phase.before), seconds(phase.after)) for phase in phases)
    items = (Item("By phase", blocks=(Table(("phase", "before", "after"), rows),)),) if rows else ()
    return Section("times", "Compile time", "", items)


#: What ``--section`` takes with ``--against``.
NAMES = ("frames", *(name for name, _, _ in _GROUPS), "times")
