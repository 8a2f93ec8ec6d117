"""Gather all insights in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from repro_kit.trace.compiles import Compiles
from repro_kit.trace.dynamo_text import GraphBreak
from repro_kit.trace.insights.breaks import ExportProblem, ExportProblems, FailedCompile, GraphBreaks, grouped
from repro_kit.trace.insights.collectives import Collectives, collectives_in
from repro_kit.trace.insights.compile_index import CompileIndex, Similar, SimilarGraphs
from repro_kit.trace.insights.dynamic_shapes import DynamicShapes, Shapes
from repro_kit.trace.insights.guards import Guards, GuardTrees
from repro_kit.trace.insights.overview import COMPILED, Overview, Overviews
from repro_kit.trace.insights.provenance import Provenance, Provenances
from repro_kit.trace.insights.ranks import Parting, RankBooks, Ranks, parting
from repro_kit.trace.insights.recompiles import Recompiled, Recompiles
from repro_kit.trace.insights.specializations import Specialization, Specializations
from repro_kit.trace.places import CodeKey
from repro_kit.trace.reader import Problems, read
from repro_kit.trace.record import Insight, Record
from repro_kit.trace.text_log import TextLines, TextReader


@dataclass(frozen=True)
class Totals:
    """What is counted in a trace. Every count on a page, in a sentence and in the JSON is one of these.

    `compiles`: those that began (of a text: those that it tells of, without those that hit the limit). `graphs`: those
    that ended well (`COMPILED`). `recompiles`: compiles of a function after its first, without those that hit the
    limit. A function that several processes compile counts once.
    """

    compiles: int = 0
    graphs: int = 0
    functions: int = 0
    recompiles: int = 0
    recompiled_functions: int = 0
    limit_hits: int = 0
    graph_breaks: int = 0
    places_of_breaks: int = 0
    more_graphs: int = 0  # that were compiled of the code after graph breaks
    failures: int = 0
    states: dict[str, int] = field(default_factory=dict)  # compiles by how they ended


@dataclass(frozen=True)
class Insights:
    """The insights of a trace. Every field is the result of one module."""

    overview: Overview = field(default_factory=Overview)
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompiled, ...] = ()
    guards: Guards = field(default_factory=Guards)
    specializations: tuple[Specialization, ...] = ()
    shapes: DynamicShapes = field(default_factory=DynamicShapes)
    similar: tuple[SimilarGraphs, ...] = ()
    failures: tuple[FailedCompile, ...] = ()
    exports: tuple[ExportProblem, ...] = ()
    ranks: Ranks = field(default_factory=Ranks)
    parting: Parting | None = None  # of the first compile whose graphs differ on two ranks
    provenance: Provenance = field(default_factory=Provenance)
    collectives: Collectives = field(default_factory=Collectives)  # from dumps of the flight recorder, if any
    problems: Problems = field(default_factory=Problems)  # parts of the log that could not be read
    events: dict[str, int] = field(default_factory=dict)  # how many records of each kind
    text: bool = False  # from TORCH_LOGS text only: no times, graphs or inputs
    lines: TextLines = field(default_factory=TextLines)  # of that text: how much was read

    @property
    def totals(self) -> Totals:
        """All that is counted on a page."""
        compiles = self.overview.compiles
        states = self.overview.states()
        graphs = sum(states.get(state, 0) for state in COMPILED)
        hits = sum(recompiled.hits for recompiled in self.recompiles)
        done = [compile_ for compile_ in compiles if self.text or compile_.state in COMPILED]
        functions = {compile_.code or compile_.ref.code_key for compile_ in done}
        return Totals(
            compiles=self._in_text() if self.text else len(compiles),
            graphs=0 if self.text else graphs,
            functions=len(functions),
            recompiles=sum(recompiled.count for recompiled in self.recompiles),
            recompiled_functions=len({recompiled.code or recompiled.key for recompiled in self.recompiles}),
            limit_hits=hits,
            graph_breaks=sum(graph_break.count for graph_break in self.breaks),
            places_of_breaks=len({_place_of(graph_break) for graph_break in self.breaks}),
            more_graphs=sum(graph_break.extra_graphs for graph_break in self.breaks),
            failures=sum(failure.count for failure in self.failures),
            states={} if self.text else {str(state): number for state, number in states.items()},
        )

    def _in_text(self) -> int:
        """The compiles of which a text tells: a recompile 0/2 tells that there were 0/0 and 0/1."""
        compiles: dict[CodeKey, int] = {}
        for ref in (compile_.ref for compile_ in self.overview.compiles):
            compiles[ref.code_key] = max(compiles.get(ref.code_key, 0), ref.number + 1)
        return sum({**compiles, **{function.key: function.count + 1 for function in self.recompiles}}.values())


def _place_of(graph_break: GraphBreak) -> object:
    return (graph_break.where.file, graph_break.where.line) if graph_break.where else graph_break.kind


def gather(path: str | Path, rank: int | None = None) -> Insights:
    """The insights of the trace at `path`: a log, a directory of logs, or ``TORCH_LOGS`` text.

    A directory may also hold dumps of the flight recorder, with logs or alone.
    With `rank`, only the records of that rank. Raises ReproKitError if nothing is at `path`.
    """
    reader = read(path)
    insights = _ask(_of(reader, rank))
    collectives = collectives_in(Path(path)) if Path(path).is_dir() else Collectives()
    if reader.events or collectives != Collectives():
        ranks = replace(insights.ranks, named=reader.named)
        insights = replace(
            insights, problems=reader.problems, events=dict(reader.events), collectives=collectives, ranks=ranks
        )
        return replace(insights, parting=parting(insights.ranks.divergences, read(path)))
    text = TextReader(Path(path))
    insights = _ask(_of(text, rank))
    return replace(insights, text=True, events=dict(text.events), lines=text.lines)


def _of(records: Iterable[Record], rank: int | None) -> Iterable[Record]:
    return records if rank is None else (record for record in records if record.rank == rank)


def _ask(records: Iterable[Record]) -> Insights:
    index, outcomes = CompileIndex(), Compiles()
    overview, breaks, recompiles = Overviews(index, outcomes), GraphBreaks(index), Recompiles(index)
    guards, specializations = GuardTrees(index), Specializations(index)
    shapes, similar, ranks = Shapes(index), Similar(index), RankBooks(index)
    exports, provenances = ExportProblems(), Provenances(index)
    asked: dict[str, list[Insight]] = {}
    for insight in (overview, breaks, recompiles, guards, specializations, shapes, similar, exports, provenances):
        for name in insight.names:
            asked.setdefault(name, []).append(insight)
    for record in records:
        for book in (index, outcomes, ranks):
            book.see(record)
        for asker in asked.get(record.name, ()):
            asker.see(record)
    return Insights(
        overview.result(), breaks.result(), recompiles.result(), guards.result(), specializations.result(),
        shapes.result(), similar.result(), grouped(outcomes), exports.result(), ranks.result(),
        provenance=provenances.result(),
    )  # fmt: skip
