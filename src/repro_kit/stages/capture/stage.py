"""Capture: record the subject's graphs, and find the one that fails like the subject when run alone."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.handles import CAPTURE, OBSERVATION
from repro_kit.case.stage_results import Artifact, Capture, Observation
from repro_kit.errors import Exit, ReproKitError
from repro_kit.files import read_text, write_atomic
from repro_kit.model.failure.brief import brief
from repro_kit.model.failure.failure import Kind, Status, Verdict
from repro_kit.model.failure.signature import Signature, Strength, focused, signature_of
from repro_kit.model.failure.tolerance import is_loose
from repro_kit.program import parse, render, size
from repro_kit.program.from_runnable import from_runnable
from repro_kit.program.graph_record import GraphRecord
from repro_kit.runner.findings import read_findings
from repro_kit.runner.recorded import Recorded, read_recorded
from repro_kit.session import watched
from repro_kit.session.judging import with_random
from repro_kit.session.options import Options
from repro_kit.session.oracles import fresh_oracle, needs_fresh, open_oracle, query_timeout
from repro_kit.session.script_run import run_subject
from repro_kit.session.stop import Stop
from repro_kit.stages.capture.program_forms import Attempt, Variants
from repro_kit.ui import Ui

_MOST_ATTEMPTS = 200
_SECONDS = 900.0  # for all attempts together
_MOST_AFRESH = 6  # attempts that are made again in fresh interpreters


def run(case: Case, options: Options, ui: Ui) -> None:
    """Write `capture/program.py` and `capture.json`; a case without a program stays with the script, and says why."""
    observation = case.load(OBSERVATION)
    ui.progress("recording the graphs")
    files = _record(case, options, ui)
    recorded = read_recorded(_place(case))
    graphs = sum(len(one.graphs) for one in recorded)
    kind = case.file.signature.kind if case.file.signature else Kind.ACCURACY
    search = _Search(case, options, ui, case.file.signature, kind)
    found, reasons = None, []
    for tolerance in _tolerances(observation, case.file.failure_index, kind):
        found, more = search.first(_attempts(recorded, kind, files, tolerance))
        reasons += more
        if found is not None:
            break
    border = "dynamo"
    if found is None and _runnables(case, observation):
        changes = Variants(recorded[0], kind, files).extras if recorded else ""
        found, more = search.first(_runnable_attempts(case, observation, kind, changes))
        reasons += more
        border = "aot"
    if found is None and search.tried and not needs_fresh(case):
        found, border = search.first_afresh(reasons), "dynamo"
    if found is None:
        _stay_with_script(case, ui, options, graphs, reasons)
        return
    _keep(case, found, search, graphs, border, ui)


def _place(case: Case) -> Path:
    return case.path / "capture" / "record"


def _record(case: Case, options: Options, ui: Ui) -> tuple[Path, ...]:
    """Run the subject with the capture hook; the user's own Python files."""
    place = _place(case)
    shutil.rmtree(case.path / "capture", ignore_errors=True)
    if watched.is_watched(case.path):
        return tuple(map(Path, watched.lay_out(case, place).modules))
    run_subject(
        case,
        place,
        timeout=options.timeout,
        mode="capture",
        findings=place,
        on_tick=lambda seconds: ui.progress(f"recording the graphs, {seconds:.0f} s"),
    )
    findings = read_findings(place)
    for problem in findings.problems:
        ui.warn(f"The probe had a problem while recording: {problem.strip().splitlines()[-1]}")
    subject = case.file.subject
    script = [Path(subject.cwd, subject.argv[0])] if subject.form == "script" else []
    named = [Path(subject.cwd, part.split("::")[0]) for part in subject.argv if part.split("::")[0].endswith(".py")]
    return tuple(dict.fromkeys([*script, *named, *map(Path, findings.modules)]))


def _tolerances(observation: Observation, at: int, kind: Kind) -> list[tuple[float, float] | None]:
    """What to judge wrong results by, in the order to try: the usual tolerance (None), and the user's own.

    By a looser one a smaller difference is no failure; by a tighter one rounding may be, which is left for last.
    """
    stated = observation.failures[at].failure.tolerance if at < len(observation.failures) else None
    if kind is not Kind.ACCURACY or stated is None:
        return [None]
    return [stated, None] if is_loose(stated) else [None, stated]


def _attempts(
    recorded: Sequence[Recorded], kind: Kind, files: tuple[Path, ...], tolerance: tuple[float, float] | None
) -> Iterator[Attempt | str]:
    """Every way to write every graph, suspects first; a sentence where there is none."""
    later: list[Iterator[Attempt | str]] = []
    for one in recorded:
        variants = Variants(one, kind, files, tolerance)
        suspects = one.suspects()
        for number in suspects:
            graph = one.graph(number)
            if graph is not None:
                yield from _of(variants, graph)
        rest = [graph for graph in one.graphs if graph.number not in suspects]
        later += [_of(variants, graph) for graph in rest]
    # First the plainest form of every other graph, then their other forms.
    for attempts in later:
        first = next(attempts, None)
        if first is not None:
            yield first
    for attempts in later:
        yield from attempts


def _of(variants: Variants, graph: GraphRecord) -> Iterator[Attempt | str]:
    try:
        yield from variants.attempts(graph)
    except ReproKitError as error:
        yield str(error)


def _runnables(case: Case, observation: Observation) -> list[Artifact]:
    """The `fx_graph_runnable` of the failing compile id; of all, where the failure names none."""
    failure = observation.failures[case.file.failure_index].failure if observation.failures else None
    wanted = failure.compile_id if failure else None
    return [artifact for artifact in observation.artifacts if wanted is None or artifact.compile_id == wanted]


def _runnable_attempts(case: Case, observation: Observation, kind: Kind, changes: str) -> Iterator[Attempt | str]:
    """Each artifact as it is, and with the script's `changes` to the compiler."""
    for artifact in _runnables(case, observation):
        try:
            program = from_runnable(read_text(case.path / artifact.path))
        except ReproKitError as error:
            yield f"fx_graph_runnable {artifact.compile_id}: {error}"
            continue
        graph = GraphRecord(number=0, pid=0, compile_id=artifact.compile_id)
        recipe = program.recipe.with_(check=kind is Kind.ACCURACY)
        for preamble in dict.fromkeys(("", changes)):
            how = "from its fx_graph_runnable" + (", with the script's changes to the compiler" if preamble else "")
            yield Attempt(render(program.with_(recipe=recipe, preamble=preamble)), recipe, graph, how)


class _Search:
    """Tries attempts until one fails like the original."""

    def __init__(self, case: Case, options: Options, ui: Ui, target: Signature | None, kind: Kind) -> None:
        self.case = case
        self.ui = ui
        self.target = target
        self.kind = kind
        self.inputs = _place(case) / "inputs"
        self.timeout = query_timeout(options, kind)
        self.options = options
        self.verdict = Verdict(Status.INFRA)
        self.signature: Signature | None = None
        self.tried: list[Attempt] = []  # of Dynamo's graphs
        self.fresh = False

    def first(self, attempts: Iterator[Attempt | str]) -> tuple[Attempt | None, list[str]]:
        """The first attempt that fails like the original, and why the others do not."""
        reasons: list[str] = []
        until = time.monotonic() + _SECONDS
        with open_oracle(self.case, self.options) as oracle:
            for count, attempt in enumerate(attempts):
                if count >= _MOST_ATTEMPTS or time.monotonic() > until:
                    reasons.append("there are more graphs than could be tried")
                    break
                if isinstance(attempt, str):
                    reasons.append(attempt)
                    continue
                self.ui.progress(f"trying graph {attempt.graph.compile_id} alone {attempt.how}".rstrip())
                (verdict,) = oracle.check([attempt.text], self.inputs, timeout=self.timeout)
                if self._is_it(verdict):
                    return attempt, reasons
                if verdict.status is not Status.INVALID and attempt.graph.code:
                    self.tried.append(attempt)
                reasons.append(f"graph {attempt.graph.compile_id} alone {attempt.how}: {_told(verdict)}")
        return None, reasons

    def first_afresh(self, reasons: list[str]) -> Attempt | None:
        """The same in fresh interpreters, for the first few: torch's first compile of all may fail, later ones not."""
        with fresh_oracle(self.case) as oracle:
            for attempt in self.tried[:_MOST_AFRESH]:
                self.ui.progress(
                    f"trying graph {attempt.graph.compile_id} in a fresh interpreter {attempt.how}".rstrip()
                )
                (verdict,) = oracle.check([attempt.text], self.inputs, timeout=self.timeout)
                if self._is_it(verdict):
                    self.fresh = True
                    return attempt
        reasons.append("the same in fresh interpreters")
        return None

    def _is_it(self, verdict: Verdict) -> bool:
        if verdict.status != Status.FAIL or verdict.failure is None:
            return False
        failure = verdict.failure if self.target is None else focused(verdict.failure, self.target)
        signature = signature_of(failure)
        like = signature.kind == self.kind if self.target is None else self.target.matches(signature, Strength.REBASED)
        if like:
            self.verdict, self.signature = replace(verdict, failure=failure), signature
        return like


def _told(verdict: Verdict) -> str:
    if verdict.failure is None:
        return f"{verdict.status}{' (' + verdict.note + ')' if verdict.note else ''}"
    word = {Status.INVALID: "cannot run in eager: ", Status.FAIL: "fails differently: "}.get(verdict.status, "")
    return word + signature_of(verdict.failure).summary()


def _stay_with_script(case: Case, ui: Ui, options: Options, graphs: int, reasons: list[str]) -> None:
    note = "no graph was compiled" if not graphs else f"none of {graphs} graphs fails alone"
    case.store(CAPTURE, Capture(subject="script", graphs=graphs, note="; ".join([note, *reasons][:12])))
    for reason in reasons[:6]:
        ui.note(reason)
    if watched.is_watched(case.path):
        raise watched.nothing_alone(case, note.capitalize())
    if case.file.signature is None:
        raise Stop(Exit.NOTHING_FAILED, f"Nothing failed, and {options.check} is right: {note}.")
    ui.done(f"{note}; going on with the script")


def _keep(case: Case, found: Attempt, search: _Search, graphs: int, border: str, ui: Ui) -> None:
    program = parse(found.text)
    if search.verdict.fallback_random:
        program = with_random(program)
    write_atomic(case.path / "capture" / "program.py", render(program).encode())
    inputs = case.path / "capture" / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    for name in {file.name for file in search.inputs.glob("*.pt") if f'"{file.name}"' in found.text}:
        (search.inputs / name).replace(inputs / name)
    shutil.rmtree(search.inputs, ignore_errors=True)
    statements = size(program)
    capture = Capture(
        subject="program",
        border="aot" if border == "aot" else "dynamo",
        graphs=graphs,
        graph=found.graph.compile_id,
        statements=statements,
        verdict=replace(brief(search.verdict), fallback_random=False),
        signature=search.signature,
        recipe=program.recipe,
        fresh=search.fresh,
        note=found.how,
    )
    case.store(CAPTURE, capture)
    if case.file.signature is None:
        case.update(signature=search.signature)
    words = [found.how, "only in an interpreter that has compiled nothing before" if search.fresh else ""]
    how = f" ({', '.join(filter(None, words))})" if any(words) else ""
    ui.done(f"graph {found.graph.compile_id} of {graphs} fails alone{how}: {statements} statements")
