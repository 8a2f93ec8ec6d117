"""All insights from one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from repro_kit.trace.break_text import GraphBreak
from repro_kit.trace.compiles import Compiles
from repro_kit.trace.insight import Insight
from repro_kit.trace.insights.breaks import GraphBreaks
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.insights.dynamic_shapes import DynamicShapes, Shapes
from repro_kit.trace.insights.failed_compiles import FailedCompile, grouped
from repro_kit.trace.insights.guards import Guards, GuardTrees
from repro_kit.trace.insights.overview import Overview, Overviews
from repro_kit.trace.insights.ranks import RankBooks, Ranks
from repro_kit.trace.insights.recompiles import Recompiled, Recompiles
from repro_kit.trace.insights.similar import Similar, SimilarGraphs
from repro_kit.trace.insights.specializations import Specialization, Specializations
from repro_kit.trace.reader import Problems, read
from repro_kit.trace.record import Record
from repro_kit.trace.text_log import TextReader


@dataclass(frozen=True)
class Insights:
    """What a trace tells; every field is the result of the module of its name."""

    overview: Overview = field(default_factory=Overview)
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompiled, ...] = ()
    guards: Guards = field(default_factory=Guards)
    specializations: tuple[Specialization, ...] = ()
    shapes: DynamicShapes = field(default_factory=DynamicShapes)
    similar: tuple[SimilarGraphs, ...] = ()
    failures: tuple[FailedCompile, ...] = ()
    ranks: Ranks = field(default_factory=Ranks)
    problems: Problems = field(default_factory=Problems)  # what of the log could not be read
    events: dict[str, int] = field(default_factory=dict)  # how many records of each kind
    text: bool = False  # all there is, is what torch logged as text: no times, graphs or inputs


def gather(path: str | Path, rank: int | None = None) -> Insights:
    """The insights of the trace at `path`: a log, or a directory of logs; else of the ``TORCH_LOGS`` text there.

    With `rank` the records of that rank alone. Raises ReproKitError when there is nothing at `path`.
    """
    reader = read(path)
    insights = _ask(_of(reader, rank))
    if reader.events:
        return replace(insights, problems=reader.problems, events=dict(reader.events))
    text = TextReader(Path(path))
    insights = _ask(_of(text, rank))
    return replace(insights, text=True, events=dict(text.events))


def _of(records: Iterable[Record], rank: int | None) -> Iterable[Record]:
    return records if rank is None else (record for record in records if record.rank == rank)


def _ask(records: Iterable[Record]) -> Insights:
    known, outcomes = CompileIndex(), Compiles()
    overview, breaks, recompiles = Overviews(known, outcomes), GraphBreaks(known), Recompiles(known)
    guards, specializations = GuardTrees(known), Specializations(known)
    shapes, similar, ranks = Shapes(known), Similar(known), RankBooks()
    asked: dict[str, list[Insight]] = {}
    for insight in (overview, breaks, recompiles, guards, specializations, shapes, similar):
        for name in insight.names:
            asked.setdefault(name, []).append(insight)
    for record in records:
        for book in (known, outcomes, ranks):
            book.see(record)
        for one in asked.get(record.name, ()):
            one.see(record)
    return Insights(
        overview.result(), breaks.result(), recompiles.result(), guards.result(), specializations.result(),
        shapes.result(), similar.result(), grouped(outcomes), ranks.result(),
    )  # fmt: skip
