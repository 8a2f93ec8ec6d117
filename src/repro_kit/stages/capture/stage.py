"""Capture: find the recorded graph that fails like the subject when the graph runs alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from repro_kit.artefact.plain import runnable
from repro_kit.case.case import Case
from repro_kit.case.stage_results import CAPTURE, OBSERVATION, Capture
from repro_kit.errors import Exit, Stop
from repro_kit.failure.differences import changed_since
from repro_kit.failure.frames import brief
from repro_kit.files import link_or_copy, write_atomic
from repro_kit.graph import parse, size
from repro_kit.options.stages import CaptureOptions
from repro_kit.session.oracles import with_random
from repro_kit.stages.capture import growth, wrong_values
from repro_kit.stages.capture.graph_search import GraphSearch
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.stages.capture.recording import RecordedGraphs, of_another_run, of_observed_run
from repro_kit.stages.capture.search_order import Searched, is_lost, search_in_all_ways
from repro_kit.subject import watched_recording
from repro_kit.ui import Ui
from repro_kit.verdicts import by_rounding, settle


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
    searched = search_in_all_ways(case, options, ui, observation, recording)
    if searched.attempt is None:
        if is_lost(case) and observation.failures:  # the script's own words for it
            case.update(signature=observation.failures[case.file.failure_index].signature)
        _stay_with_script(case, ui, options, recording.graphs, searched)
        return
    _keep(case, searched.attempt, searched.search, recording.graphs, searched.border, ui)
    settle.by_program(case)
    if searched.search.signature is not None and searched.search.signature.rounding:
        wrong_values.explain(case, ui, searched.search, alone=True)
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


def _stay_with_script(case: Case, ui: Ui, options: CaptureOptions, graphs: int, searched: Searched) -> None:
    reasons = searched.reasons
    alone = "the only graph does not fail alone" if graphs == 1 else f"none of {graphs} graphs fails alone"
    note = searched.hopeless or (alone if graphs else "no graph was compiled")
    case.store(CAPTURE, Capture(subject="script", graphs=graphs, note="; ".join([note, *reasons][:12])))
    for reason in reasons[:6]:
        ui.detail(reason)
    if watched_recording.is_watched(case.path):
        raise watched_recording.nothing_alone(case, note.capitalize())
    wrong_values.explain(case, ui, searched.search)
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
    wrong = wrong_values.first_wrong(case, ui, program, search.signature, lines, timeout)
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
    wrong_values.show(ui, wrong)
