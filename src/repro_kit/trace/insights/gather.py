"""All insights from one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from repro_kit.trace.compiles import Compiles
from repro_kit.trace.insights.breaks import GraphBreak, GraphBreaks
from repro_kit.trace.insights.failures import FailedCompile, grouped
from repro_kit.trace.insights.guards import Guards, GuardTrees
from repro_kit.trace.insights.known import Known
from repro_kit.trace.insights.overview import Overview, Overviews
from repro_kit.trace.insights.ranks import RankBooks, Ranks
from repro_kit.trace.insights.recompiles import Recompiled, Recompiles
from repro_kit.trace.insights.shapes import DynamicShapes, Shapes
from repro_kit.trace.insights.similar import Similar, SimilarGraphs
from repro_kit.trace.insights.specializations import Specialization, Specializations
from repro_kit.trace.reader import Problems, read


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


def gather(path: str | Path) -> Insights:
    """The insights of the trace at `path`: a log, or a directory of logs. Raises ReproKitError when there is none."""
    reader = read(path)
    known, outcomes = Known(), Compiles()
    overview, breaks, recompiles = Overviews(known, outcomes), GraphBreaks(known), Recompiles(known)
    guards, specializations = GuardTrees(known), Specializations(known)
    shapes, similar, ranks = Shapes(known), Similar(known), RankBooks()
    ask = (known, outcomes, overview, breaks, recompiles, guards, specializations, shapes, similar, ranks)
    for record in reader:
        for insight in ask:
            insight.see(record)
    return Insights(
        overview.result(), breaks.result(), recompiles.result(), guards.result(), specializations.result(),
        shapes.result(), similar.result(), grouped(outcomes), ranks.result(), reader.problems, dict(reader.events),
    )  # fmt: skip
