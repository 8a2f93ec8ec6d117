"""Reduce the user's script itself, if no graph of it fails alike, or if the user wants Python."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from repro_kit.bundle.repro.script_repro import HANG
from repro_kit.case.case import Case
from repro_kit.diagnosis.layer import IN_EAGER
from repro_kit.errors import Exit, StageError, Stop
from repro_kit.failure.failure import Difference, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, failure_alike, signature_of
from repro_kit.failure.symptom import Symptom
from repro_kit.options.stages import MinifyOptions
from repro_kit.recipe import LADDER
from repro_kit.reduce import CannotReduce, Event, Journal, Result
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.script import CannotFold, Script, measure
from repro_kit.script.compile_calls import with_backend
from repro_kit.script.failing_statements import decisive
from repro_kit.script.ranks import without_workers
from repro_kit.script.recording import Recorded, RecordedTexts, without_reads
from repro_kit.script.reducer import compacted, minify_script, without_idle_twin
from repro_kit.session.oracles import fresh_oracle, open_oracle, query_timeout
from repro_kit.stages.minify.progress import deadline_of_script, ended, events_to, shown
from repro_kit.stages.minify.results import write_source
from repro_kit.stages.minify.source_files import RankView, folded, main_file, rank_views, test_of, third_party
from repro_kit.stages.minify.source_oracle import (
    Compared,
    Expected,
    SourceOracle,
    draws_unseeded,
    raising_lines,
    seeds_in,
)
from repro_kit.subject.subject_check import fails_in_eager, is_program_alone
from repro_kit.ui import Ui
from repro_kit.verdicts.symptoms import case_symptom

_HANG = 1.1 * HANG  # a script that hangs here hangs in repro.py, which also starts an interpreter
_SHORTEST, _LONGER = 4.0, 4  # a candidate may take so many seconds, or so many times as long as the whole script
_WAITING = 40.0  # seconds of a run that ends once the ranks wait for each other


class _NotReduced(Exception):
    """Why the script stays as it is."""


def run(case: Case, options: MinifyOptions, ui: Ui) -> None:
    """Write `minify/source/`; say why if the script cannot be reduced."""
    reduced = _reduced_or_why(case, options, ui)
    if isinstance(reduced, _Reduced):
        ui.done(_written(case, reduced, ui))
        return
    if fails_in_eager(case):
        raise Stop(Exit.USER_BUG, f"{IN_EAGER} The script is not reduced: {reduced}.")
    if options.source:
        raise StageError(f"The script cannot be reduced: {reduced}.")
    ui.done(f"the script is not reduced: {reduced}")


def reduce_beside_program(case: Case, options: MinifyOptions, ui: Ui) -> str:
    """Write `minify/source/` when the reduced program needs stored values; returns the result in words.

    A script that was not seen to fail alike in a fresh interpreter is not kept: the program was.
    """
    reduced = _reduced_or_why(case, options, ui)
    if isinstance(reduced, str):
        return f"the script is not reduced: {reduced}"
    if reduced.failure is None:
        return "the reduced script was not seen to fail in a fresh interpreter, and is not used"
    return _written(case, reduced, ui)


def _reduced_or_why(case: Case, options: MinifyOptions, ui: Ui) -> _Reduced | str:
    """The reduction; or why the script stays as it is."""
    shutil.rmtree(case.path / "minify" / "source", ignore_errors=True)  # an earlier result
    try:
        return _reduced(case, options, ui)
    except (_NotReduced, CannotFold, CannotReduce) as reason:
        return str(reason).rstrip(".")


def _written(case: Case, reduced: _Reduced, ui: Ui) -> str:
    """Write the reduction to the case; returns it in words."""
    result, failure = reduced.result, reduced.failure
    needs = third_party(result.program)
    note = "; ".join(filter(None, [reduced.view.note_of(result.program), reduced.larger]))
    ranks, fresh, seen = reduced.view.ranks, reduced.fresh, reduced.seen
    write_source(case, result, failure, self_contained=not needs, ranks=ranks, fewer=note, fresh=fresh, seen=seen)
    if reduced.larger:
        ui.note(f"{reduced.larger[:1].upper()}{reduced.larger[1:]}.")
    if needs:
        ui.note(f"The reduced script needs {', '.join(needs)} besides torch.")
    return ended(result, failure, "statement")


@dataclass(frozen=True)
class _Reduced:
    """A reduction, how its result fails in a fresh interpreter, and the ranks that run it."""

    result: Result[Script]
    failure: Failure | None
    view: RankView
    stand_in: int = 0  # statements that replace the launcher and the other ranks
    seen: Difference | None = None  # between its compiled calls and eager, where its own check fails
    fresh: bool = False  # it fails only in an interpreter that has compiled nothing before

    @property
    def larger(self) -> str:
        """Why the result is larger than the script; "" if it is not."""
        if self.result.statements_after <= self.result.statements_before:
            return ""
        return f"the result has {self.stand_in} extra statements that replace the launcher and the other ranks"


def _reduced(case: Case, options: MinifyOptions, ui: Ui) -> _Reduced:
    signature = case.file.signature
    if signature is None:
        raise _NotReduced("the case holds no failure")
    if is_program_alone(case):
        raise _NotReduced("the case was made from a program, and has no script")
    if signature.kind.policy.not_reduced:
        raise _NotReduced(signature.kind.policy.not_reduced)
    symptom = case_symptom(case)
    whole_script = folded(case)
    program = without_workers(whole_script)
    test = test_of(case)
    if test is not None:
        ui.detail(f"The script runs the test {test.node}.")
    together, in_eager = signature.kind is Kind.DEADLOCK, fails_in_eager(case)
    hangs = signature.kind.policy.hangs
    timeout = _WAITING if together else _HANG if hangs else query_timeout(case, options, signature.kind)
    with ExitStack() as stack:
        deadline = options.deadline or deadline_of_script(signature.kind)
        options = replace(options, deadline=deadline)
        on_event = stack.enter_context(events_to(options.events, shown(ui, "statement")))
        if in_eager:
            ui.note("The script is reduced without torch.compile, to show what makes the ranks wait.")
        ui.progress("running the script as one file")
        afresh = stack.enter_context(fresh_oracle(case))
        # A fork compiles faster than the script, and other processes make it slower.
        is_timed = symptom is not None and symptom.timed
        oracle = afresh if is_timed else stack.enter_context(open_oracle(case, options.jobs))
        start: _Start | str = "starts its ranks in a way that repro-kit cannot repeat"  # until there is a view
        for view in rank_views(case, program, together=together):
            attempt = _Attempt(oracle, signature, symptom, timeout, view.ranks, in_eager=in_eager)
            whole = SourceOracle(oracle, Expected(signature), timeout, view.ranks)
            recorded = whole.record(view.program, case.file.subject.cwd, str(main_file(case)))
            attempt, start_program, start = _first(attempt, afresh, view.program, recorded)
            if isinstance(start, _Start):
                break
        else:
            workers = "" if program == whole_script else " and without workers of its data loaders"
            raise _NotReduced(f"as one file, in an empty directory{workers}, the script {start}")
        if start_program != view.program:
            ui.note("What the script read from files or the network is written into it; look at the result.")
        if view.note:
            ui.note(f"{view.note[:1].upper()}{view.note[1:]}.")
        start_program, start, backend = _with_less(attempt, start_program, start)
        if backend:
            ui.detail(f"The script fails alike with backend={backend!r}, so the smaller script compiles with that.")
        result = attempt.search(start_program, start, recorded.by_text(view.program), case, options, on_event)
        ui.progress("checking the result in a fresh interpreter")
        judge = SourceOracle(afresh, start.expected, timeout, view.ranks)
        result = replace(compacted(result), statements_before=measure(program)[0])
        failure, seen = _failure_afresh(judge, result, start.expected)
        if failure is not None:
            result = without_idle_twin(result, raising_lines(failure))
        stand_in = measure(view.program)[0] - result.statements_before
        return _Reduced(result, failure, view, stand_in, seen, fresh=attempt.oracle is afresh and not is_timed)


@dataclass(frozen=True)
class _Start:
    """The failure of the script as one file, in the form that the search keeps."""

    expected: Expected
    failing_lines: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class _Attempt:
    """A search with one oracle."""

    oracle: ProgramOracle
    signature: Signature
    symptom: Symptom | None
    timeout: float
    ranks: int
    in_eager: bool = False

    def _judge(self, expected: Expected, timeout: float | None = None) -> SourceOracle:
        return SourceOracle(self.oracle, expected, self.timeout if timeout is None else timeout, self.ranks)

    def first(self, program: Script) -> _Start | str:
        """Run the whole script; in words what it does, if not fail alike with the compiler and pass without it."""
        why = "does not fail alike"
        for same_random in (True, False) if self.signature.kind is Kind.ACCURACY else (False,):
            expected = Expected(
                self.signature,
                self.symptom,
                same_random=same_random,
                seeds=seeds_in(program.text),
                unseeded=draws_unseeded(program.text),
                in_eager=self.in_eager,
            )
            judge = self._judge(expected)
            (seen,) = judge.runs([program])
            failure = failure_alike(seen.verdict, self.signature)
            if failure is None:
                why = f"does not fail alike: {seen.verdict.note}" if seen.verdict.note else why
                continue
            if judge.needs_compiler(program):
                is_own_check = failure.kind is Kind.ACCURACY and self.symptom is None
                compared = judge.compared(program) if is_own_check else None
                seen_alike = replace(
                    expected,
                    signature=signature_of(failure),
                    causes=seen.causes,
                    compared=compared,
                    mismatch=judge.mismatch(program),
                )
                return _Start(seen_alike, raising_lines(failure) or seen.compiled_at, seen.verdict.seconds)
            why = "does not pass without torch.compile either"
        return why

    def is_right_interpreted(self, program: Script, start: _Start) -> bool:
        """Whether the graph that a weaker backend hands on is right, although the backend fails alike."""
        return self._judge(start.expected).is_right_interpreted(program)

    def search(
        self,
        program: Script,
        start: _Start,
        texts: RecordedTexts,
        case: Case,
        options: MinifyOptions,
        on_event: Callable[[Event], None],
    ) -> Result[Script]:
        """Reduce the script."""
        limit = min(self.timeout, max(_SHORTEST, _LONGER * start.seconds))  # a candidate may loop forever
        judge = self._judge(start.expected, limit)
        is_check = start.expected.signature.kind is Kind.ACCURACY and start.failing_lines
        directory = case.path / "minify"
        directory.mkdir(exist_ok=True)

        def anew(shorter: Script) -> RecordedTexts:  # what hangs in eager would be recorded without an end
            return (Recorded() if self.in_eager else judge.record(shorter)).by_text(shorter)

        return minify_script(
            program,
            judge,
            decisive=decisive(program, start.failing_lines[-1]) if is_check else (),
            failing_lines=start.failing_lines,
            values=texts.values,
            items=texts.items,
            record=anew,
            journal=Journal(directory / "journal-source.jsonl", about=judge.about),
            budget=options.budget,
            deadline=options.deadline,
            on_event=on_event,
        )


def _first(
    attempt: _Attempt, afresh: ProgramOracle, program: Script, recorded: Recorded
) -> tuple[_Attempt, Script, _Start | str]:
    """The script without reads of data, else as it is; it may fail only if nothing was imported before.

    In place of a start the reason why there is none, of the script as it is.
    """
    programs = [*without_reads(program, recorded), program]
    start: _Start | str = ""
    for way in (attempt, replace(attempt, oracle=afresh)):
        for form in programs:
            start = way.first(form)
            if isinstance(start, _Start):
                return way, form, start
    return attempt, program, start


def _with_less(attempt: _Attempt, program: Script, start: _Start) -> tuple[Script, _Start, str]:
    """The script with the first backend of the ladder that fails alike, and that backend: "" if that is its own.

    A backend that fails, but hands on a graph that is right, shows another failure.
    """
    for backend in LADDER[:-1] if not attempt.in_eager else ():
        form = with_backend(program, backend)
        if form is None:  # the script has this backend itself, or no call that could be changed
            break
        less = attempt.first(form)
        if not isinstance(less, _Start) or not _has_its_evidence(less, start):
            continue
        if not attempt.is_right_interpreted(form, less):
            return form, less, backend
    return program, start, ""


def _has_its_evidence(less: _Start, start: _Start) -> bool:
    """Whether with less of the compiler the failure has the script's causes, and calls differ from eager as its do."""
    before, now = start.expected.compared, less.expected.compared
    is_as_wrong = before is None or now is None or not before.unlike(now)
    return is_as_wrong and start.expected.is_caused_by(less.expected.causes)


def _failure_afresh(
    judge: SourceOracle, result: Result[Script], expected: Expected
) -> tuple[Failure | None, Difference | None]:
    """The failure of the result in a fresh interpreter, and the difference of its compiled calls from eager.

    There is no failure if it does not fail alike there, or not pass in eager.
    """
    for _ in range(result.repeats):
        (seen,) = judge.runs([result.program])
        failure = failure_alike(seen.verdict, expected.signature)
        if failure is None or not expected.is_caused_by(seen.causes) or not judge.needs_compiler(result.program):
            continue
        now = judge.compared(result.program) if expected.compared else Compared()
        if expected.compared is None or not expected.compared.unlike(now):
            return failure, now.shown
    return None, None
