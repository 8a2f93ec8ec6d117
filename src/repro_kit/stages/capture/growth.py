"""Find a part of a recorded graph whose compile time grows too fast with the number of its repetitions.

The family that shows the growth is the graph itself, called 1, 2, 4 … times in a row. That needs no knowledge of the
script, works for any graph, and holds on a busy machine, since only the growth of CPU time counts. A graph that is too
slow to be repeated is halved until its parts are quick enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import CAPTURE, Capture
from repro_kit.errors import Exit, ReproKitError, Stop
from repro_kit.failure.failure import Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.symptom import parse_symptom
from repro_kit.graph import Program, parse, render
from repro_kit.graph.edits import Edit, apply, generate_values, stored_inputs
from repro_kit.graph.effects import Base
from repro_kit.graph.slice import WITH_DEFINITIONS, WITH_OPERATORS
from repro_kit.graph.values import Metadata, TensorRecord, records
from repro_kit.options.stages import CaptureOptions
from repro_kit.session.oracles import open_oracle
from repro_kit.stages.capture.graph_search import GraphSearch
from repro_kit.stages.capture.program_forms import Attempt, Variants
from repro_kit.stages.capture.recording import RecordedGraphs
from repro_kit.trace.insights.gather import gather
from repro_kit.ui import Ui

_OF_HANGS = 1.5  # the power above which the growth explains a compile that does not end
_SMALLEST = 2  # statements of a part
_POWER = re.compile(r"the power (\d[\d.]*) of")
_SHARE = 0.75  # of the power that was measured: a reduced program must exceed it
_STEEPEST = 4.0  # what grows by a factor, or with a higher power, may read as this power if few repetitions end


def limit_of(case: Case, options: CaptureOptions) -> float | None:
    """The power that compile time may grow with: the user's, or that for a hang; None if growth is not asked for."""
    symptom = parse_symptom(options.check) if options.check else None
    if symptom is not None and symptom.kind is Kind.COMPILE_GROWTH:
        return symptom.limit
    signature = case.file.signature
    hangs = signature is not None and signature.kind is Kind.TIMEOUT
    return _OF_HANGS if hangs else None


@dataclass(frozen=True)
class Grown:
    """The result of the search: its last state, and the attempt that grows too fast, if any."""

    search: GraphSearch
    attempt: Attempt | None
    reasons: Sequence[str]


def search(case: Case, options: CaptureOptions, ui: Ui, recording: RecordedGraphs, limit: float) -> Grown:
    """Look in all recorded graphs, the largest first, for one whose compile time grows faster than `limit` allows."""
    ui.progress("measuring how compile time grows")
    graphs = GraphSearch(case, options, ui, None, Kind.COMPILE_GROWTH, recording.inputs)
    attempt, reasons = graphs.first(_attempts(case, graphs, recording, limit))
    failure = graphs.latest.failure
    if attempt is not None and failure is not None:
        attempt = _with_limit(attempt, kept_limit(failure.text, limit))
    return Grown(graphs, attempt, reasons)


def kept_limit(words: str, limit: float) -> float:
    """The power that a reduced program must exceed to grow in the way that `words` describe (embedded/growth.py)."""
    power = _POWER.search(words)
    return max(limit, round(_SHARE * min(float(power[1]) if power else _STEEPEST, _STEEPEST), 1))


def _with_limit(attempt: Attempt, limit: float) -> Attempt:
    program = parse(attempt.text)
    recipe = program.recipe.with_(growth=limit)
    return replace(attempt, text=render(program.with_(recipe=recipe)), recipe=recipe)


def refuse(case: Case, ui: Ui, grown: Grown, graphs: int) -> None:
    """Say that no graph grows too fast, and where its compile time goes. Raises Stop where nothing else failed."""
    for reason in grown.reasons:
        ui.note(reason)
    if case.file.signature is not None:
        return
    none = "the only graph does not grow" if graphs == 1 else f"none of {graphs} graphs grows"
    words = f"{none} too fast in compile time" if graphs else "no graph was compiled"
    case.store(CAPTURE, Capture(subject="script", graphs=graphs, note=words))
    raise Stop(
        Exit.NOTHING_FAILED, "\n".join([f"Nothing failed: {words}.", *_account(case.path / "observe" / "trace")])
    )


def _account(trace: Path) -> Iterator[str]:
    """Where the compile time of the observed run goes, by phase."""
    overview = gather(trace).overview if trace.exists() else None
    if overview is None or not overview.seconds:
        return
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in overview.phases.items() if seconds >= 0.05)
    whole = f"Compile time of the observed run: {overview.seconds:.1f} s"
    yield f"{whole} ({phases}); see repro-kit explain for what each phase is part of."


def _attempts(case: Case, graphs: GraphSearch, recording: RecordedGraphs, limit: float) -> Iterator[Attempt | str]:
    for process in recording.processes:
        variants = Variants(process, Kind.COMPILE_GROWTH, recording.files)
        for graph in sorted(process.graphs, key=lambda graph: len(graph.code), reverse=True):
            try:
                forms = {
                    attempt.how: attempt
                    for attempt in variants.attempts(graph)
                    if attempt.how in ("", WITH_OPERATORS, WITH_DEFINITIONS)
                }
            except ReproKitError as error:
                yield str(error)
                continue
            for attempt in forms.values():
                yield from parts(case, graphs, attempt, limit)


def parts(case: Case, graphs: GraphSearch, attempt: Attempt, limit: float) -> Iterator[Attempt]:
    """The program of `attempt`, and smaller and smaller parts of it as long as it is too slow to be repeated."""
    program = parse(attempt.text)
    recipe = program.recipe.with_(check=False, growth=limit, graph_caches=False)
    program = program.with_(recipe=recipe)
    yield replace(attempt, text=render(program), recipe=recipe)
    if graphs.latest.status is not Status.CANNOT_TELL:
        return
    with open_oracle(case) as oracle:
        _, calls = oracle.record(render(program), graphs.inputs, timeout=graphs.timeout)
    metadata = records(calls[0]) if calls else {}
    base = Base(program)
    pieces = 2
    while len(base.units) >= _SMALLEST * pieces and graphs.latest.status is Status.CANNOT_TELL:
        for at in range(pieces):
            part = part_of(base, metadata, at, pieces)
            if part is None:
                continue
            how = f"part {at + 1} of {pieces}"
            yield replace(attempt, text=render(part), recipe=recipe, how=", ".join(filter(None, [attempt.how, how])))
            if graphs.latest.status is Status.CANNOT_TELL:
                break  # the other parts of this size are as slow
        pieces *= 2


def part_of(base: Base, metadata: Metadata, at: int, pieces: int) -> Program | None:
    """The part number `at` of `pieces` parts; values from outside become inputs, values that are read later outputs.

    Inputs get generated values: compile time hardly depends on values, and the reduction may have no time for that.
    """
    units = base.units
    inside = {index for unit in units[len(units) * at // pieces : len(units) * (at + 1) // pieces] for index in unit}
    low, high = min(inside), max(inside)
    inside |= {index for group in base.states if group[0] < high and group[-1] > low for index in group}
    outside = frozenset(range(len(base.statements))) - inside
    read = {name for index in outside for name in base.reads[index]} | set(base.outputs)
    values = (base.statements[index].target or "" for index in sorted(inside))
    outputs = tuple(name for name in values if name in read and isinstance(metadata.get(name), TensorRecord))
    generated = [generate_values(line.name, record) for line, record in stored_inputs(base.program, metadata)]
    return apply(base, sum(generated, Edit(removed=outside, outputs=outputs)), metadata) if outputs else None
