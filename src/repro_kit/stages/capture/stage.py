"""Capture: find the recorded graph that fails like the subject when the graph runs alone."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.artefact.plain import runnable
from repro_kit.case.case import Case
from repro_kit.case.stage_results import CAPTURE, OBSERVATION, ROUNDING, Capture, WrongStatement
from repro_kit.errors import Exit, Stop
from repro_kit.failure.differences import ResultErrors, Rounding, SettingTried, changed_since
from repro_kit.failure.failure import Verdict
from repro_kit.failure.frames import brief
from repro_kit.failure.kinds import Kind
from repro_kit.files import link_or_copy, write_atomic
from repro_kit.graph import Program, parse, render, size
from repro_kit.graph.effects import op_name
from repro_kit.graph.search import part_of
from repro_kit.graph.suspects import suspects
from repro_kit.graph.values import records
from repro_kit.options.stages import CaptureOptions
from repro_kit.probe.repro_probe.protocol.failure_data import GRADIENT
from repro_kit.probe.repro_probe.protocol.findings import INPUTS
from repro_kit.probe.repro_probe.protocol.queries import RoundingData
from repro_kit.runner.places import scratch
from repro_kit.runner.program_oracle import Divergence, ProgramOracle
from repro_kit.serialize import from_data
from repro_kit.session.oracles import open_oracle, with_random
from repro_kit.stages.capture import growth
from repro_kit.stages.capture.graph_search import GraphSearch
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.stages.capture.recording import RecordedGraphs, of_another_run, of_observed_run
from repro_kit.stages.capture.search_order import Searched, is_lost, search_in_all_ways
from repro_kit.subject import watched_recording
from repro_kit.ui import Ui
from repro_kit.verdicts import by_rounding, settle

PATIENCE = 4.0  # times the limit of a query: the graph is compiled several times
MOST_NAMED = 3
_LEAST, _COMPILES = 120.0, 12.0  # seconds for `diverge`, and how many times what one run took
_TANGENT = "tangents_"  # how AOTAutograd names what a backward gets
_SMALL = 3  # a part is looked at alone if it is so many times smaller


def first_wrong(case: Case, ui: Ui, program: Program, verdict: Verdict, timeout: float) -> Divergence:
    """The statements of `program` that are wrong although what they are computed from is right; empty where unknown.

    Where the results that `verdict` has as wrong and as right leave a few statements only, these are looked at alone.
    `timeout`: seconds for one query.
    """
    failure = verdict.failure
    if failure is None or failure.kind is not Kind.ACCURACY or failure.rounding:
        return Divergence()
    ui.progress("looking where the values begin to differ")
    inputs = case.path / "capture" / "inputs"
    with open_oracle(case) as oracle:
        divergence = _in_part(oracle, program, verdict, inputs, timeout)
        if not divergence.names:
            limit = min(PATIENCE * timeout, _LEAST + _COMPILES * verdict.seconds)
            gradients = {each.place for each in (failure.difference, *failure.also) if each} == {GRADIENT}
            divergence = oracle.diverge(render(program), inputs, timeout=limit, gradients=gradients)
    return divergence


def wrong_statements(program: Program, divergence: Divergence, lines: Mapping[str, str]) -> tuple[WrongStatement, ...]:
    """The first wrong statements. `lines`: of the user's code, by the name that a statement assigns."""
    statements = {statement.target: statement for statement in program.graph.statements}
    return tuple(
        WrongStatement(name, named.line, op_name(named), divergence.backward, lines.get(name, ""))
        for name, named in ((name, statements[name]) for name in divergence.names)
    )


def _in_part(oracle: ProgramOracle, program: Program, verdict: Verdict, inputs: Path, timeout: float) -> Divergence:
    """The same of the part that the right and the wrong results leave, with its recorded values as inputs."""
    found = suspects(program, verdict.wrong, verdict.right)
    if not found or _SMALL * len(found) > len(program.graph.statements):
        return Divergence()
    statements, text = program.graph.statements, render(program)
    elsewhere = {statement.target for at, statement in enumerate(statements) if statement.target and at not in found}
    read = elsewhere.intersection(name for at in found for name in statements[at].reads)
    with scratch() as outer:
        directory = outer / INPUTS  # a program looks for its stored values in a directory of this name
        directory.mkdir()
        for name in program.stored:
            link_or_copy(inputs / name, directory / name)
        _, calls = oracle.record(text, inputs, values=sorted(read), save=directory, timeout=timeout)
        part = part_of(program, records(calls[0]), found) if calls else None
        return Divergence() if part is None else oracle.diverge(render(part), directory, timeout=timeout)


def show(ui: Ui, wrong: tuple[WrongStatement, ...]) -> None:
    """Show the first of the statements."""
    for first in wrong[:MOST_NAMED]:
        what = "gradient" if first.backward else "value"
        ui.note(f"The first wrong {what} is that of: {first.statement}{_at(first.line)}")


def _at(line: str) -> str:
    path, _, number = line.rpartition(":")
    directory = Path.cwd()
    shown = Path(path).relative_to(directory) if path and Path(path).is_relative_to(directory) else path
    return f" ({shown}:{number})" if path else ""


_CHAOTIC = 1e4  # the growth of one rounding error from which a model counts as chaotic
_ALONE = Rounding(evidence=(f"the captured graph is {by_rounding.NEAR}",))
#: The reasons by the operator at which the two part; the first that fits counts.
_REASONS = (
    ({"argmax", "argmin", "topk", "sort", "argsort", "max", "min", "median", "mode"}, "a choice that flips"),
    (
        {"matmul", "mm", "bmm", "addmm", "baddbmm", "linear", "conv1d", "conv2d", "conv3d", "einsum"}
        | {"scaled_dot_product_attention"},
        "a product that is accumulated in another order or precision",
    ),
    (
        {"sum", "mean", "softmax", "log_softmax", "logsumexp", "norm", "var", "std", "var_mean", "cumsum", "prod"}
        | {"layer_norm", "rms_norm", "group_norm", "batch_norm", "cross_entropy", "mse_loss", "nll_loss"},
        "another order of a reduction",
    ),
)
_OTHERWISE = "other instructions for the same operator (a fused multiply-add, a vectorised function)"


def explain(case: Case, ui: Ui, search: GraphSearch, *, alone: bool = False) -> None:
    """Add what the first graph shows that differs by rounding alone; do nothing without a rounding verdict.

    `alone`: the graph itself is the verdict, since it fails under the tolerance that it is held to.
    """
    if not search.rounded or not (alone or (case.holds(ROUNDING) and not case.load(ROUNDING).random)):
        return
    attempt = search.rounded[-1 if alone else 0]
    ui.progress(f"looking for the reason why graph {attempt.graph.compile_id} rounds differently from eager")
    with open_oracle(case) as oracle:
        data = oracle.explain_rounding(attempt.text, search.inputs, timeout=PATIENCE * search.timeout)
    if data is not None:
        verdict = _ALONE if alone else case.load(ROUNDING)
        case.store(ROUNDING, _with(verdict, attempt, data))


def _with(rounding: Rounding, attempt: Attempt, data: RoundingData) -> Rounding:
    program = parse(attempt.text)
    tried = from_data(data["tried"], tuple[SettingTried, ...])
    restored_by = next((trial.setting for trial in tried if trial.agrees), rounding.restored_by)
    names = set(data["first"])
    first = [statement.line for statement in program.graph.statements if statement.target in names]
    return replace(
        rounding,
        errors=rounding.errors or from_data(data["errors"], tuple[ResultErrors, ...]),
        first=tuple(first[:MOST_NAMED]),
        why=_why(program, first[:1], restored_by, data["growth"]),
        growth=data["growth"],
        restored_by=restored_by,
        tried=tried,
    )


def _why(program: Program, first: Sequence[str], restored_by: str, growth: float) -> str:
    """The reason in words: measured if a setting restores eager's rounding, else read off the first operator."""
    if growth >= _CHAOTIC:
        return f"the model is chaotic, since it makes one rounding error {growth:.2g} times larger"
    if "emulate_precision_casts" in restored_by:
        return by_rounding.CASTS_LEFT_OUT
    if "fallback_random" in restored_by:
        return "the compiled graph draws other random numbers"
    if restored_by:
        return "an operator is computed by a different rule than in eager"
    if not first:
        return ""
    names = {op_name(statement) for statement in program.graph.statements if statement.line in first}
    return "probably " + next((words for operators, words in _REASONS if names & operators), _OTHERWISE)


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
        explain(case, ui, searched.search, alone=True)
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
    explain(case, ui, searched.search)
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
    divergence = first_wrong(case, ui, program, search.verdict, search.timeout)
    wrong = wrong_statements(program, divergence, attempt.graph.lines)
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
        of_backward=any(name.startswith(_TANGENT) for name in program.graph.params),
        harmless=divergence.harmless,
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
    show(ui, wrong)
