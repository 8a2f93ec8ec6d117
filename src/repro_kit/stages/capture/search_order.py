"""Which programs are made of the recorded graphs, and in which order they are tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import OBSERVATION, ROUNDING, Artifact, Observation
from repro_kit.errors import ReproKitError
from repro_kit.failure.failure import STATE, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import AT_THE_LIMIT, is_loose, is_overwritten
from repro_kit.failure.signature import Signature
from repro_kit.files import read_text
from repro_kit.graph import render
from repro_kit.graph.python_code import joined
from repro_kit.graph.reading.from_runnable import from_runnable
from repro_kit.graph.reading.graph_record import GraphRecord
from repro_kit.graph.slice import preamble_words
from repro_kit.options.stages import CaptureOptions
from repro_kit.recipe import judged_as
from repro_kit.runner.read_findings import Recorded
from repro_kit.stages.capture.graph_search import GraphSearch
from repro_kit.stages.capture.program_forms import Attempt, Variants, of_two_codes
from repro_kit.stages.capture.recording import RecordedGraphs, of_another_run
from repro_kit.subject import watched_recording
from repro_kit.ui import Ui
from repro_kit.verdicts import by_rounding, settle

#: The usual tolerances of bfloat16, float16 and float32, which show rounding if it counts as a failure.
_USUAL = ((1.6e-2, 1e-5), (1e-3, 1e-5), (1.3e-6, 1e-5))


def is_lost(case: Case) -> bool:
    """Whether the failure is an exception that eager raises and the compiled script does not."""
    signature = case.file.signature
    return signature is not None and signature.kind.policy.eager_raises


@dataclass(frozen=True)
class Searched:
    """The result of trying the graphs of one recording."""

    search: GraphSearch
    attempt: Attempt | None
    border: str
    reasons: list[str]
    hopeless: str = ""  # why no graph can show the failure, if that is known


def search_in_all_ways(
    case: Case, options: CaptureOptions, ui: Ui, observation: Observation, recording: RecordedGraphs
) -> Searched:
    """Try the graphs of `recording`, then with large values, as a lost exception, and last in fresh interpreters."""
    searched = try_graphs(case, options, ui, observation, recording)
    is_watched = watched_recording.is_watched(case.path)
    if searched.attempt is None and recording.lacks_values and not is_watched and not searched.hopeless:
        ui.progress("recording the graphs again, with large values")
        recording = of_another_run(case, options.timeout, ui, "large values were left out of the first recording")
        searched = try_graphs(case, options, ui, observation, recording)
    if searched.attempt is None and not is_watched:
        settle.by_runs(case, options.timeout, ui)
        if is_lost(case) and not searched.search.kind.policy.eager_raises:
            ui.progress("eager raises what the compiled script does not: looking for the graph that shows it")
            searched = try_graphs(case, options, ui, case.load(OBSERVATION), recording)
    if searched.attempt is None and not case.holds(ROUNDING) and not _is_healthy(case, observation):
        return _afresh(case, searched)
    return searched


def _beside_graphs(target: Signature | None) -> str:
    """Why no graph alone can show `target`; "" where one may."""
    if target is not None and is_overwritten(target.message):
        return "no graph alone shows it, since a program reads the outputs of a call before the next call"
    if target is not None and AT_THE_LIMIT in target.exceptions:
        return "no graph alone shows it, since it takes several compilations of one function to reach the limit"
    if target is not None and target.difference == STATE:
        return "the difference is not in a result of a graph, but in the Python state that a call leaves"
    if target is not None and target.difference in ("random", "warning"):
        return "the difference is not in a result of a graph, but in what a call leaves beside it"
    return ""


def try_graphs(
    case: Case, options: CaptureOptions, ui: Ui, observation: Observation, recording: RecordedGraphs
) -> Searched:
    """Try the graphs of `recording`: Dynamo's, then Inductor's."""
    wanted = next((kind for kind in Kind if kind.policy.compared and kind == options.check), Kind.ACCURACY)
    kind = case.file.signature.kind if case.file.signature else wanted
    target, as_failure = case.file.signature, options.treat_rounding_as == by_rounding.AS_FAILURE
    if target is not None and as_failure:
        target = replace(target, rounding=True)
    search = GraphSearch(case, options, ui, target, kind, recording.inputs)
    healthy = _is_healthy(case, observation)
    failure = next(iter(observation.failures[case.file.failure_index :]), None)
    processes = recording.of_failure(failure)
    reasons: list[str] = []
    compile_id = None if failure is None else _compile_that_failed(failure.failure, observation)
    no_graph = compile_id is not None and bool(recording.graphs) and _has_no_graph(compile_id, processes)
    hopeless = f"compile {compile_id} failed before its frame had a graph" if no_graph else _beside_graphs(target)
    if hopeless:
        return Searched(search, None, "dynamo", [], hopeless)
    tolerances = _tolerances(observation, case.file.failure_index, kind)
    if as_failure and kind is Kind.ACCURACY:
        tolerances += [tolerance for tolerance in _USUAL if tolerance not in tolerances]
    together = target is not None and target.kind is Kind.DEADLOCK
    for tolerance in tolerances:
        attempts = attempts_of(processes, kind, recording.files, tolerance, plainest=healthy)
        if together:
            attempts = filter(_is_of_ranks, attempts)
        if not healthy:
            attempts = chain(attempts, _of_two_codes(processes, recording, kind, tolerance))
        attempt, more = search.first(attempts)
        reasons += more
        if attempt is not None or search.hopeless:
            return Searched(search, attempt, "dynamo", reasons, search.hopeless)
    # Of a script whose own calls agree with eager, one form of each graph is enough; an artifact has no real ranks. It
    # has no values either: those that were recorded, and that differ by rounding alone, are better evidence.
    if not (healthy or together or search.rounded) and _runnables(case, observation):
        first = next(iter(processes), None)
        changes = Variants(first, kind, recording.files).extras if first else ""
        attempt, more = search.first(_runnable_attempts(case, observation, kind, tolerances[0], changes))
        reasons += more
        if attempt is not None:
            return Searched(search, attempt, "aot", reasons)
    return Searched(search, None, "dynamo", reasons)


def _compile_that_failed(failure: Failure, observation: Observation) -> str | None:
    """The compile in which Dynamo failed; None for any other failure, or if it is not known.

    A launcher passes an exception on as text; the trace has the failure with the same message.
    """
    if failure.kind is not Kind.DYNAMO_ERROR or failure.compile_id or not failure.exceptions:
        return failure.compile_id if failure.kind is Kind.DYNAMO_ERROR else None
    message = failure.exceptions[-1].message.strip()
    others = [each.failure for each in observation.failures if each.failure.compile_id and message]
    same = {each.compile_id for each in others if message in [link.message.strip() for link in each.exceptions]}
    return same.pop() if len(same) == 1 else None


def _has_no_graph(compile_id: str, processes: Sequence[Recorded]) -> bool:
    """Whether no compile of the same frame made a graph. The graphs of other frames compile alone, as they did.

    Compiled autograd (``!0/1/0``) traces the backward of any graph, which a graph alone may show.
    """
    if compile_id.startswith("!"):
        return False
    frame = compile_id.rpartition("/")[0]
    return not any(
        not graph.compile_id or graph.compile_id.rpartition("/")[0] == frame
        for process in processes
        for graph in process.graphs
    )


def _is_healthy(case: Case, observation: Observation) -> bool:
    """Whether nothing failed, and the compiled calls were compared with eager."""
    return case.file.signature is None and observation.compared > 0


def _afresh(case: Case, searched: Searched) -> Searched:
    """`searched`, and Dynamo's first graphs in fresh interpreters if the queries were forks."""
    target = searched.search.target
    if not searched.search.tried or (target is not None and target.kind is Kind.DEADLOCK):
        return searched
    attempt = searched.search.first_afresh(searched.reasons)
    return replace(searched, attempt=attempt, border="dynamo", hopeless=searched.search.hopeless)


def _tolerances(observation: Observation, at: int, kind: Kind) -> list[tuple[float, float] | None]:
    """The tolerances for wrong results, in the order to try: the default one (None), and the user's own.

    A looser one of the user's comes first, since it ignores small differences. A tighter one comes last, since with it
    rounding alone may count as a failure.
    """
    stated = observation.failures[at].failure.tolerance if at < len(observation.failures) else None
    if kind is not Kind.ACCURACY or stated is None:
        return [None]
    return [stated, None] if is_loose(stated) else [None, stated]


def attempts_of(
    recorded: Sequence[Recorded],
    kind: Kind,
    files: tuple[Path, ...],
    tolerance: tuple[float, float] | None,
    *,
    plainest: bool,
) -> Iterator[Attempt | str]:
    """All attempts for all graphs, suspects first; a sentence for a graph without one. `plainest`: one attempt each.

    All forms of a suspect come before the next graph. A wrong result points at no graph: every graph that was trained
    ran a backward. So each form of all graphs comes before the next form.
    """
    waiting: list[Iterator[Attempt | str]] = []
    for process in recorded:
        variants = Variants(process, kind, files, tolerance)
        numbers = process.suspects()
        suspects = [graph for graph in map(process.graph, numbers) if graph is not None]
        rest = [graph for graph in process.graphs if graph.number not in numbers]
        if kind is not Kind.ACCURACY:
            for graph in suspects:
                yield from islice(_of(variants, graph), 1 if plainest else None)
        waiting += [_of(variants, graph) for graph in (rest if kind is not Kind.ACCURACY else [*suspects, *rest])]
    while waiting:
        going_on = []
        for attempts in waiting:
            attempt = next(attempts, None)
            if attempt is not None:
                yield attempt
                going_on.append(attempts)
        waiting = going_on if not plainest else []


def _of_two_codes(
    processes: Sequence[Recorded], recording: RecordedGraphs, kind: Kind, tolerance: tuple[float, float] | None
) -> Iterator[Attempt | str]:
    """Attempts with different graphs on different ranks; `processes` are judged first."""
    first = [*processes, *(process for process in recording.processes if process not in processes)]
    try:
        yield from of_two_codes(first, kind, recording.files, tolerance)
    except ReproKitError as error:
        yield str(error)


def _is_of_ranks(attempt: Attempt | str) -> bool:
    """Whether the ranks of an attempt may wait for each other: each is a process."""
    if isinstance(attempt, str):
        return True
    return attempt.recipe.group is not None and not attempt.recipe.group.is_fake


def _of(variants: Variants, graph: GraphRecord) -> Iterator[Attempt | str]:
    try:
        yield from variants.attempts(graph)
    except ReproKitError as error:
        yield str(error)


def _runnables(case: Case, observation: Observation) -> list[Artifact]:
    """The `fx_graph_runnable` artifacts of the failing compile id; all artifacts if the failure names none."""
    failure = observation.failures[case.file.failure_index].failure if observation.failures else None
    compile_id = failure.compile_id if failure else None
    return [artifact for artifact in observation.artifacts if compile_id is None or artifact.compile_id == compile_id]


def _runnable_attempts(
    case: Case, observation: Observation, kind: Kind, tolerance: tuple[float, float] | None, changes: str
) -> Iterator[Attempt | str]:
    """Each artifact, without and with the statements of the script that change the compiler or define operators."""
    rtol, atol = tolerance or (None, None)
    for artifact in _runnables(case, observation):
        try:
            program = from_runnable(read_text(case.path / artifact.path))
        except ReproKitError as error:
            yield f"fx_graph_runnable {artifact.compile_id}: {error}"
            continue
        graph = GraphRecord(number=0, pid=0, compile_id=artifact.compile_id)
        recipe = program.recipe.with_(**judged_as(kind), rtol=rtol, atol=atol)
        for preamble in dict.fromkeys(("", changes)):
            how = ", ".join(filter(None, ["from its fx_graph_runnable", preamble_words(preamble)]))
            code = joined((program.preamble, preamble))
            yield Attempt(render(program.with_(recipe=recipe, preamble=code)), recipe, graph, how)
