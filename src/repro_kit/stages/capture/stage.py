"""Capture: find the recorded graph that fails like the subject when the graph runs alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.handles import CAPTURE, OBSERVATION, ROUNDING
from repro_kit.case.stage_results import Artifact, Capture, Observation
from repro_kit.errors import Exit, ReproKitError
from repro_kit.files import link_or_copy, read_text, write_atomic
from repro_kit.model.failure.brief import brief
from repro_kit.model.failure.failure import STATE, Failure, Kind
from repro_kit.model.failure.late_errors import is_overwritten
from repro_kit.model.failure.tolerance import is_loose
from repro_kit.model.failure.what_differs import changed_since
from repro_kit.model.recipe import judged_as
from repro_kit.program import parse, render, runnable, size
from repro_kit.program.python_code import joined
from repro_kit.program.reading.from_runnable import from_runnable
from repro_kit.program.reading.graph_record import GraphRecord
from repro_kit.program.slice import preamble_words
from repro_kit.runner.recorded import Recorded
from repro_kit.session.comparison_recipe import with_random
from repro_kit.session.options import CaptureOptions
from repro_kit.session.script import watched_recording
from repro_kit.session.stop import Stop
from repro_kit.session.verdicts import by_rounding, settle
from repro_kit.stages.capture import first_wrong, growth, rounding
from repro_kit.stages.capture.graph_search import GraphSearch
from repro_kit.stages.capture.program_forms import Attempt, Variants, of_two_codes
from repro_kit.stages.capture.recording import RecordedGraphs, of_another_run, of_observed_run
from repro_kit.ui import Ui

#: The usual tolerances of bfloat16, float16 and float32, which show rounding where it counts as a failure.
_USUAL = ((1.6e-2, 1e-5), (1e-3, 1e-5), (1.3e-6, 1e-5))


def run(case: Case, options: CaptureOptions, ui: Ui) -> None:
    """Write `capture/program.py` and `capture.json`. If no graph fails alone, record why, and go on with the script."""
    observation = case.load(OBSERVATION)
    for name in ("inputs", "record"):
        shutil.rmtree(case.path / "capture" / name, ignore_errors=True)
    recording = of_observed_run(case, observation)
    if recording is None:
        ui.progress("recording the graphs")
        recording = of_another_run(case, options.timeout, ui, "the graphs of the observed run were not recorded")
    for problem in recording.problems:
        ui.warn(f"A record of the probe is damaged and left out: {problem}.")
    if _keeps_growth(case, options, ui, recording):
        return
    searched = _searched_in_all_ways(case, options, ui, observation, recording)
    if searched.attempt is None:
        if _is_lost(case) and observation.failures:  # the script's own words for it
            case.update(signature=observation.failures[case.file.failure_index].signature)
        _stay_with_script(case, ui, options, recording.graphs, searched)
        return
    _keep(case, searched.attempt, searched.search, recording.graphs, searched.border, ui)
    settle.by_program(case)
    if searched.search.signature is not None and searched.search.signature.rounding:
        rounding.explain(case, ui, searched.search, alone=True)
        by_rounding.conclude(case, ui, options.treat_rounding_as)
    before, now = searched.search.target, searched.search.signature
    changed = changed_since(before, now, "in the graph alone") if before and now else ""
    if changed:
        ui.note(changed)
    if searched.search.check.sentence:
        ui.note(searched.search.check.sentence)
    elif observation.eager is None and not observation.settled:
        ui.detail("The script was not run without torch.compile: the graph alone passes in eager.")


def _keeps_growth(case: Case, options: CaptureOptions, ui: Ui, recording: RecordedGraphs) -> bool:
    """Whether the failure is about the growth of compile time, and a graph was kept that shows it."""
    limit = growth.limit_of(case, options)
    if limit is None:
        return False
    grown = growth.search(case, options, ui, recording, limit)
    if grown.attempt is None:
        growth.refuse(case, ui, grown, recording.graphs)
        return False
    case.update(signature=grown.search.signature)
    _keep(case, grown.attempt, grown.search, recording.graphs, "dynamo", ui)
    settle.by_program(case)
    return True


def _is_lost(case: Case) -> bool:
    signature = case.file.signature
    return signature is not None and signature.kind.policy.eager_raises


@dataclass(frozen=True)
class _Searched:
    """The result of trying the graphs of one recording."""

    search: GraphSearch
    attempt: Attempt | None
    border: str
    reasons: list[str]
    hopeless: str = ""  # why no graph can show the failure, where that is known


def _searched_in_all_ways(
    case: Case, options: CaptureOptions, ui: Ui, observation: Observation, recording: RecordedGraphs
) -> _Searched:
    """Try the graphs of `recording`, then with large values, as a lost exception, and last in fresh interpreters."""
    searched = _searched(case, options, ui, observation, recording)
    is_watched = watched_recording.is_watched(case.path)
    if searched.attempt is None and recording.lacks_values and not is_watched and not searched.hopeless:
        ui.progress("recording the graphs again, with large values")
        recording = of_another_run(case, options.timeout, ui, "large values were left out of the first recording")
        searched = _searched(case, options, ui, observation, recording)
    if searched.attempt is None and not is_watched:
        settle.by_runs(case, options.timeout, ui)
        if _is_lost(case) and not searched.search.kind.policy.eager_raises:
            ui.progress("eager raises what the compiled script does not: looking for the graph that shows it")
            searched = _searched(case, options, ui, case.load(OBSERVATION), recording)
    if searched.attempt is None and not case.holds(ROUNDING) and not _is_healthy(case, observation):
        return _afresh(case, searched)
    return searched


def _searched(
    case: Case, options: CaptureOptions, ui: Ui, observation: Observation, recording: RecordedGraphs
) -> _Searched:
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
    if compile_id is not None and recording.graphs and _has_no_graph(compile_id, processes):
        why = f"compile {compile_id} failed before its frame had a graph"
        return _Searched(search, None, "dynamo", [], hopeless=why)
    tolerances = _tolerances(observation, case.file.failure_index, kind)
    if as_failure and kind is Kind.ACCURACY:
        tolerances += [tolerance for tolerance in _USUAL if tolerance not in tolerances]
    if target is not None and is_overwritten(target.message):
        why = "no graph alone shows it, since a program reads the outputs of a call before the next call"
        return _Searched(search, None, "dynamo", [], hopeless=why)
    if target is not None and target.difference == STATE:
        why = "what differs is not a result of a graph, but the Python state that a call leaves"
        return _Searched(search, None, "dynamo", [], hopeless=why)
    together = target is not None and target.kind is Kind.DEADLOCK
    for tolerance in tolerances:
        attempts = _attempts(processes, kind, recording.files, tolerance, plainest=healthy)
        if together:
            attempts = filter(_is_of_ranks, attempts)
        if not healthy:
            attempts = chain(attempts, _of_two_codes(processes, recording, kind, tolerance))
        attempt, more = search.first(attempts)
        reasons += more
        if attempt is not None or search.hopeless:
            return _Searched(search, attempt, "dynamo", reasons, search.hopeless)
    # Of a script whose own calls agree with eager, one form of each graph is enough; an artifact has no real ranks.
    if healthy or together:
        return _Searched(search, None, "dynamo", reasons)
    if _runnables(case, observation):
        first = next(iter(processes), None)
        changes = Variants(first, kind, recording.files).extras if first else ""
        attempt, more = search.first(_runnable_attempts(case, observation, kind, changes))
        reasons += more
        if attempt is not None:
            return _Searched(search, attempt, "aot", reasons)
    return _Searched(search, None, "dynamo", reasons)


def _compile_that_failed(failure: Failure, observation: Observation) -> str | None:
    """The compile in which Dynamo failed; None for any other failure, or where it is not known.

    Of an exception that a launcher passes on as text, the trace tells it: by a failure with the same message.
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


def _afresh(case: Case, searched: _Searched) -> _Searched:
    """`searched`, and Dynamo's first graphs in fresh interpreters where the queries were forks."""
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


def _attempts(
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


def _runnable_attempts(case: Case, observation: Observation, kind: Kind, changes: str) -> Iterator[Attempt | str]:
    """Each artifact, without and with the statements of the script that change the compiler or define operators."""
    for artifact in _runnables(case, observation):
        try:
            program = from_runnable(read_text(case.path / artifact.path))
        except ReproKitError as error:
            yield f"fx_graph_runnable {artifact.compile_id}: {error}"
            continue
        graph = GraphRecord(number=0, pid=0, compile_id=artifact.compile_id)
        recipe = program.recipe.with_(**judged_as(kind))
        for preamble in dict.fromkeys(("", changes)):
            how = ", ".join(filter(None, ["from its fx_graph_runnable", preamble_words(preamble)]))
            code = joined((program.preamble, preamble))
            yield Attempt(render(program.with_(recipe=recipe, preamble=code)), recipe, graph, how)


def _stay_with_script(case: Case, ui: Ui, options: CaptureOptions, graphs: int, searched: _Searched) -> None:
    reasons = searched.reasons
    note = "no graph was compiled" if not graphs else f"none of {graphs} graphs fails alone"
    note = searched.hopeless or note
    case.store(CAPTURE, Capture(subject="script", graphs=graphs, note="; ".join([note, *reasons][:12])))
    for reason in reasons[:6]:
        ui.detail(reason)
    if watched_recording.is_watched(case.path):
        raise watched_recording.nothing_alone(case, note.capitalize())
    rounding.explain(case, ui, searched.search)
    if case.file.signature is None:
        ending = f"Nothing failed, and --check {options.check} found nothing: {note}."
        raise Stop(Exit.NOTHING_FAILED, "\n".join([ending, *by_rounding.healthy(case)]))
    by_rounding.conclude(case, ui, options.treat_rounding_as)
    ui.done(f"{note}; going on with the script")


def _with_values(text: str, recorded: Path, target: Path) -> str:
    """`text` with the stored values that it loads renamed by number; the values are copied to `target`.

    The recorded names contain the id of a process, which differs in each run.
    """
    target.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(parse(text).stored):
        link_or_copy(recorded / name, target / f"values_{number}.pt")
        text = text.replace(f'"{name}"', f'"values_{number}.pt"')
    return text


def _keep(case: Case, attempt: Attempt, search: GraphSearch, graphs: int, border: str, ui: Ui) -> None:
    inputs = case.path / "capture" / "inputs"
    program = parse(_with_values(attempt.text, search.inputs, inputs))
    if search.verdict.fallback_random:
        program = with_random(program)
    write_atomic(case.path / "capture" / "program.py", runnable(program).encode())
    statements = size(program)
    lines, timeout = attempt.graph.lines, search.timeout
    wrong = first_wrong.first_wrong(case, ui, program, search.signature, lines, timeout)
    capture = Capture(
        subject="program",
        border="aot" if border == "aot" else "dynamo",
        graphs=graphs,
        graph=attempt.graph.compile_id,
        statements=statements,
        verdict=replace(brief(search.verdict), fallback_random=False),
        signature=search.signature,
        recipe=program.recipe,
        fresh=search.fresh,
        wrong=wrong,
        own_check=search.check.sentence,
        note=attempt.how,
    )
    case.store(CAPTURE, capture)
    if case.file.signature is None:
        case.update(signature=search.signature)
    words = [attempt.how, "only in an interpreter that has compiled nothing before" if search.fresh else ""]
    size_in_words = f"{statements} operator{'s' * (statements != 1)}"
    how = f" ({', '.join(filter(None, words))})" if any(words) else ""
    of_rank = f", of rank {attempt.graph.rank}," if attempt.graph.rank is not None else ""
    of_all = f" of {graphs}" if graphs > 1 else ""
    ui.done(f"graph {attempt.graph.compile_id}{of_all}{of_rank} fails alone{how}: {size_in_words}")
    first_wrong.show(ui, wrong)
