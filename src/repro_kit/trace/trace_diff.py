"""Compare two traces: two runs, two ranks, two releases of torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from repro_kit.failure.failure import Frame
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.overview import CompileInfo
from repro_kit.trace.insights.specializations import Specialization

_GUARDS = 200  # guards that are listed


class Fate(StrEnum):
    """How a finding changed from the first trace to the second."""

    APPEARED = "appeared"
    VANISHED = "vanished"
    CHANGED = "changed"


@dataclass(frozen=True)
class FrameChange:
    """A function whose compiles differ: in number, graphs or results.

    `before`, `after`: how each compile of the function ended (``ok``), in order.
    """

    fate: Fate
    name: str
    code: Frame | None
    before: tuple[str, ...]
    after: tuple[str, ...]
    reasons: tuple[str, ...] = ()  # reasons of recompiles that only the second trace has
    graphs_differ: bool = False
    ops: tuple[int, int] = (0, 0)  # operations in all graphs of the function

    @property
    def recompiles_more(self) -> bool:
        """Whether the function is compiled more often in the second trace."""
        return len(self.after) > len(self.before) > 0


@dataclass(frozen=True)
class TraceChange:
    """A changed finding with its values; a value is empty if that side lacks the finding."""

    fate: Fate
    what: str
    before: str = ""
    after: str = ""
    where: Frame | None = None


@dataclass(frozen=True)
class Seconds:
    """Time of one phase on both sides."""

    phase: str
    before: float
    after: float


@dataclass(frozen=True)
class TraceDifference:
    """All differences between two traces. Times are always included."""

    frames: tuple[FrameChange, ...] = ()
    versions: tuple[TraceChange, ...] = ()
    settings: tuple[TraceChange, ...] = ()
    breaks: tuple[TraceChange, ...] = ()
    specializations: tuple[TraceChange, ...] = ()
    guards: tuple[TraceChange, ...] = ()
    failures: tuple[TraceChange, ...] = ()
    caches: tuple[TraceChange, ...] = ()
    phases: tuple[Seconds, ...] = ()
    guards_left_out: int = 0


def difference(before: Insights, after: Insights) -> TraceDifference:
    """The differences between `before` and `after`."""
    guards = _changes(_guards(before), _guards(after))
    return TraceDifference(
        tuple(_frames(before, after)),
        _changes(before.overview.versions, after.overview.versions),
        _changes(_settings(before), _settings(after)),
        _changes(_breaks(before), _breaks(after), _break_places(before, after)),
        _changes(_specializations(before), _specializations(after)),
        guards[:_GUARDS],
        _changes(_failures(before), _failures(after)),
        _changes(_caches(before), _caches(after)),
        tuple(_phases(before, after)),
        max(0, len(guards) - _GUARDS),
    )


def _frames(before: Insights, after: Insights) -> Iterable[FrameChange]:
    ours, theirs = _by_code(before), _by_code(after)
    known_reasons = {
        _key(recompile.code): {reason.guard.text for reason in recompile.reasons} for recompile in before.recompiles
    }
    for key in dict.fromkeys((*ours, *theirs)):
        left, right = ours.get(key, []), theirs.get(key, [])
        states = tuple(compile_.state.value for compile_ in left), tuple(compile_.state.value for compile_ in right)
        graphs = Counter(compile_.graph for compile_ in left) != Counter(compile_.graph for compile_ in right)
        if states[0] == states[1] and not graphs:
            continue
        reasons = (
            reason.guard.text
            for recompile in after.recompiles
            if _key(recompile.code) == key
            for reason in recompile.reasons
            if reason.guard.text not in known_reasons.get(key, ())
        )
        fate = Fate.APPEARED if not left else Fate.VANISHED if not right else Fate.CHANGED
        code = (right or left)[0].code
        ops = sum(compile_.ops for compile_ in left), sum(compile_.ops for compile_ in right)
        yield FrameChange(
            fate, code.function if code else "", code, *states, tuple(dict.fromkeys(reasons)), graphs, ops
        )


def _by_code(insights: Insights) -> dict[Hashable, list[CompileInfo]]:
    compiles: dict[Hashable, list[CompileInfo]] = {}
    for compile_ in insights.overview.compiles:
        compiles.setdefault(_key(compile_.code), []).append(compile_)
    return compiles


def _key(code: Frame | None) -> Hashable:
    """The identity of a function on both sides. The runs may use different directories."""
    return (code.function, PurePath(code.file).name, code.line) if code else None


def _changes(
    before: Mapping[str, str], after: Mapping[str, str], places: Mapping[str, Frame | None] | None = None
) -> tuple[TraceChange, ...]:
    changes = []
    for name in dict.fromkeys((*before, *after)):
        left, right = before.get(name), after.get(name)
        if left == right:
            continue
        fate = Fate.APPEARED if left is None else Fate.VANISHED if right is None else Fate.CHANGED
        changes.append(TraceChange(fate, name, left or "", right or "", (places or {}).get(name)))
    return tuple(changes)


def _settings(insights: Insights) -> dict[str, str]:
    return {setting.name: setting.value for setting in insights.overview.settings}


def _place(where: Frame | None) -> str:
    return f" at {PurePath(where.file).name}:{where.line}" if where else ""


def _breaks(insights: Insights) -> dict[str, str]:
    return {f"{graph_break.kind}{_place(graph_break.where)}": str(graph_break.count) for graph_break in insights.breaks}


def _break_places(*sides: Insights) -> dict[str, Frame | None]:
    return {
        f"{graph_break.kind}{_place(graph_break.where)}": graph_break.where
        for side in sides
        for graph_break in side.breaks
    }


def _specializations(insights: Insights) -> dict[str, str]:
    def shown(specialization: Specialization) -> str:
        sources = ", ".join(specialization.sources)
        return f"{sources} ({specialization.cause.value}){_place(specialization.where)}"

    return {shown(specialization): specialization.value for specialization in insights.specializations}


def _guards(insights: Insights) -> dict[str, str]:
    groups = (*insights.guards.groups, *insights.guards.shapes)
    return {f"{group.name}: {group.text}": str(group.count) for group in groups}


def _failures(insights: Insights) -> dict[str, str]:
    return {f"{failure.type}{_place(failure.where)}": failure.reason for failure in insights.failures}


def _caches(insights: Insights) -> dict[str, str]:
    return {
        cach.name: f"{cach.hits} hits, {cach.misses} misses, {cach.bypasses} bypasses"
        for cach in insights.overview.caches
    }


def _phases(before: Insights, after: Insights) -> Iterable[Seconds]:
    ours, theirs = before.overview, after.overview
    yield Seconds("all", ours.seconds, theirs.seconds)
    for phase in dict.fromkeys((*ours.phases, *theirs.phases)):
        yield Seconds(phase, ours.phases.get(phase, 0.0), theirs.phases.get(phase, 0.0))
