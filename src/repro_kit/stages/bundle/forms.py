"""The forms of `repro.py` for a case: the reduced program, the captured program, or the user's own script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.privacy.vocabulary import shareable
from repro_kit.bundle.repro.check_program import LIMIT
from repro_kit.bundle.repro.program_repro import REPRO, render_program
from repro_kit.bundle.repro.script_repro import HANG
from repro_kit.case.case import Case
from repro_kit.case.stage_results import (
    ABLATION,
    CAPTURE,
    ENVIRONMENT,
    OBSERVATION,
    REDUCED_FAILURE,
    REDUCTION,
    SOURCE_FAILURE,
    SOURCE_REDUCTION,
    Capture,
    Observation,
    ObservedFailure,
    Reduction,
    TwinFound,
)
from repro_kit.errors import Exit, ReproKitError
from repro_kit.failure.differences import changed_since
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, signature_of
from repro_kit.files import read_text
from repro_kit.graph import Program, parse, size
from repro_kit.graph.python_code import without_remarks
from repro_kit.recipe import Recipe
from repro_kit.script.compile_calls import self_checking
from repro_kit.session.oracles import with_tolerance
from repro_kit.subject.subject_check import is_program_alone

_SHORTEST_SCRIPT = 120.0  # least time limit of a script, in seconds
_SMALLEST = Path("minify/best.py")
_EARLIER = 4  # steps of the reduction that are tried too
_SHORTEST_HANG = 120.0  # least time limit of a script that hangs, in seconds
_WAITING = 60.0  # time limit of a reduced script whose ranks wait for each other, in seconds
_LONGEST_HANG = 300.0  # most time limit of a script that hangs, in seconds


@dataclass(frozen=True)
class CaseResults:
    """The results of the earlier stages of a case."""

    observation: Observation
    observed: ObservedFailure | None
    capture: Capture | None
    reduction: Reduction | None
    facts: Facts  # about the run of the user's command

    def change_to(self, last: Signature, *, is_graph: bool) -> str:
        """What differs from eager at last, if not what differs in the script, or else in the captured graph.

        `is_graph`: of that graph, reduced or not.
        """
        capture = self.capture
        graph = capture.signature if capture else None
        if is_graph and capture and capture.of_backward and last.kind is Kind.ACCURACY:
            return "The graph is that of a backward: what differs from eager are gradients in the script."
        of_script = changed_since(self.facts.signature, last)
        return of_script or (changed_since(graph, last, before_that="in the captured graph") if graph else "")


@dataclass(frozen=True)
class ReproForm:
    """One form of `repro.py`: the program or the reduced script in `path`, or the user's script if `path` is None."""

    facts: Facts
    limit: float  # time limit of a run in seconds, without the start of the interpreter
    note: str  # why `repro.py` is not smaller; empty for a reduced program
    path: Path | None = None
    program: Program | None = None
    reduced: bool = False  # whether the reduction accepted the program
    rewritten: bool = True  # whether it is written as a person would: public names, `with` blocks, calls within calls
    whole: bool = True  # whether results of every kind are compared; else a shorter text is tried
    text: str = ""  # of a reduced script that compares its compiled call itself
    env: Mapping[str, str] = field(default_factory=dict)  # variables that `repro.py` sets before it imports torch

    @property
    def level(self) -> str:
        """``program`` or ``script``."""
        return "script" if self.program is None else "program"

    @property
    def recipe(self) -> Recipe:
        """The recipe of the program; the default recipe for a script."""
        return self.program.recipe if self.program else Recipe()

    @property
    def smallest(self) -> bool:
        """Whether the program is the final result of the reduction, which its twin and its removals belong to."""
        return self.reduced and self.path is not None and self.path.name == "best.py"

    @property
    def is_users_script(self) -> bool:
        """Whether `repro.py` runs the user's own files, unchanged."""
        return self.path is None

    def carrying(self, env: Mapping[str, str]) -> ReproForm:
        """A copy of the form that sets the variables `env` itself."""
        if self.program is None:
            return replace(self, env={**self.env, **env})
        recipe = self.program.recipe.with_(env={**self.program.recipe.env, **env})
        return replace(self, program=self.program.with_(recipe=recipe), env={**self.env, **env})

    @property
    def minimized(self) -> str:
        """The reduction in words; empty for the user's own script."""
        if self.is_users_script:
            return ""
        reduction = self.facts.reduction
        now = size(self.program) if self.program else reduction.statements_after if reduction else 0
        unit = "operator" if self.program else "statement"
        statements = f"1 {unit}" if now == 1 else f"{now} {unit}s"
        if reduction is None or not self.reduced:
            return f"One captured graph, {statements}, not reduced."
        stopped = "" if reduction.stopped == "fixpoint" else f" Its {reduction.stopped} ended the reduction."
        minimal = ""
        if reduction.minimal and self.smallest:
            tried = sum(bool(removal.outcome) for removal in reduction.removals)
            removals = {
                0: "Nothing can be removed from it.",
                1: "Nothing more can be removed: the only possible removal does not fail alike.",
            }.get(tried, f"Nothing more can be removed: none of {tried} single removals fails alike.")
            minimal = f" {removals}"
        note = "".join(f" {as_sentence(text)}" for text in (reduction.fewer, reduction.note) if text)
        what = "" if self.program else "The user's script and modules in one file. "
        before, count = reduction.statements_before, reduction.queries
        tries = "1 try" if count == 1 else f"{count} tries"
        reduced = f"Reduced from {before} to {statements} in {tries}."
        kept = f"It has {statements}, not fewer than before, after {tries}."
        return f"{what}{reduced if now < before else kept}{stopped}{minimal}{note}"

    @property
    def twin(self) -> TwinFound | None:
        """The nearest passing program, if the form is the final result of the reduction."""
        reduction = self.facts.reduction
        return reduction.twin if self.smallest and reduction is not None else None


def results_of(case: Case) -> CaseResults:
    """Read the results of the stages. Raises ReproKitError when the case holds no failure."""
    if not case.holds(OBSERVATION) and is_program_alone(case):
        raise ReproKitError(
            f"{case.path} holds no failure: the program that it was made from was not seen to fail here; collect it "
            "again.",
            Exit.NOTHING_FAILED,
        )
    observation = case.load(OBSERVATION)
    at = case.file.failure_index
    observed = observation.failures[at] if at < len(observation.failures) else None
    signature = case.file.signature or (observed.signature if observed else None)
    if signature is None:
        raise ReproKitError(f"{case.path} holds no failure; collect it again.", Exit.NOTHING_FAILED)
    other_failures = [failure.signature.summary() for failure in observation.failures if failure is not observed]
    capture = case.current(CAPTURE)
    reduction = case.current(REDUCTION)
    facts = Facts(
        signature=signature,
        failure=observed.failure if observed else None,
        environment=shareable(case.load(ENVIRONMENT)),
        ablation=case.current(ABLATION),
        capture=capture,
        reduction=reduction,
        others=tuple(other_failures),
        moved_to_cpu=(capture and capture.moved_to_cpu) or case.file.moved_to_cpu,
        in_eager=observation.in_eager,
    )
    return CaseResults(observation, observed, capture, reduction, facts)


def candidates(case: Case, results: CaseResults) -> Iterator[ReproForm]:
    """All forms that the case allows; the smallest comes first."""
    if case.current(SOURCE_REDUCTION) is not None:
        yield from _reduced_scripts(case, results)
    if results.capture is not None and results.capture.subject == "program":
        yield from _programs(case, results, _of_program(results))
    yield _script(case, results)


def _programs(case: Case, results: CaseResults, facts: Facts) -> Iterator[ReproForm]:
    seen_texts: set[str] = set()
    for path, note in _places(case, results):
        text = read_text(path)
        program = bare(parse(text))
        reduced = path.is_relative_to(case.path / "minify")
        if not reduced:
            program = with_tolerance(program, facts.failure)
        # An earlier step has no stored values of its own: they are in another directory.
        if text not in seen_texts and not (path.parent.name == "history" and program.stored):
            seen_texts.add(text)
            own = _with_own_failure(case, facts) if path == case.path / _SMALLEST else facts
            if _is_shorter(program, own):
                yield ReproForm(own, LIMIT, note, path, program, reduced, whole=False)
            yield ReproForm(own, LIMIT, note, path, program, reduced)
            if render_program(program, own) != render_program(program, own, rewritten=False):
                yield ReproForm(own, LIMIT, note, path, program, reduced, rewritten=False)


def _is_shorter(program: Program, facts: Facts) -> bool:
    """Whether the program has a shorter text that may show the failure, too."""
    short, whole = (render_program(program, facts, whole=whole)[REPRO] for whole in (False, True))
    return len(short) < len(whole)


def bare(program: Program) -> Program:
    """`program` without the comments and docstrings of the definitions that it takes from the user's files."""
    return program.with_(preamble=without_remarks(program.preamble))


def _with_own_failure(case: Case, facts: Facts) -> Facts:
    """`facts` with the failure of the reduced program, whose sizes and names may be others than those of the script."""
    if facts.signature.kind is Kind.COMPILE_GROWTH or not case.holds(REDUCED_FAILURE):
        return facts
    return replace(facts, failure=case.load(REDUCED_FAILURE).failure)


def _reduced_scripts(case: Case, results: CaseResults) -> Iterator[ReproForm]:
    """The reduced script, and the steps before it, since a script may pass if nothing was imported before."""
    reduction = case.load(SOURCE_REDUCTION)
    directory = case.path / "minify" / "source"
    facts = replace(results.facts, reduction=reduction)
    if case.holds(SOURCE_FAILURE):
        own = case.load(SOURCE_FAILURE)
        facts = replace(facts, signature=own.signature, failure=own.failure)
    hangs = facts.signature.kind.policy.hangs
    limit = _WAITING if facts.signature.kind is Kind.DEADLOCK else HANG if hangs else _SHORTEST_SCRIPT
    shown = facts.failure is not None and bool(facts.failure.exceptions or facts.failure.exit_status)
    if facts.signature.kind is Kind.ACCURACY and not shown:
        text = self_checking(read_text(directory / "best.py"))
        if text is not None:
            yield ReproForm(facts, limit, "", directory / "best.py", reduced=True, text=text, whole=False)
    yield ReproForm(facts, limit, "", directory / "best.py", reduced=True)
    for step in reduction.steps[-2 : -_EARLIER - 2 : -1]:
        larger = replace(facts, reduction=replace(reduction, statements_after=step.statements, twin=None))
        note = "a smaller script does not fail alike alone"
        yield ReproForm(larger, limit, note, directory / step.file, reduced=True)


def _places(case: Case, results: CaseResults) -> Iterator[tuple[Path, str]]:
    """The paths of the programs, each with the reason why it is not smaller."""
    if results.reduction is not None:
        yield case.path / _SMALLEST, ""
        if results.reduction.repeats > 1 or results.facts.signature.kind.policy.ends_process:  # it varies between runs
            earlier = sorted((case.path / "minify/history").glob("*.py"))[::-1]
            yield from ((path, "a smaller program did not fail every time") for path in earlier[:_EARLIER])
    yield case.path / "capture/program.py", "the captured program is not reduced"


def _of_program(results: CaseResults) -> Facts:
    capture = results.capture
    assert capture is not None
    if results.reduction is not None and results.reduction.growth:  # the captured program was too slow to be measured
        grown = Failure(Kind.COMPILE_GROWTH, text=results.reduction.growth)
        return replace(results.facts, signature=signature_of(grown), failure=grown)
    failure = capture.verdict.failure if capture.verdict and capture.verdict.failure else results.facts.failure
    return replace(results.facts, signature=capture.signature or results.facts.signature, failure=failure)


def _script(case: Case, results: CaseResults) -> ReproForm:
    limit = max(3 * results.observation.seconds, _SHORTEST_SCRIPT)
    if results.observation.timed_out:
        limit = min(max(2 * results.observation.seconds, _SHORTEST_HANG), _LONGEST_HANG)
    kind = results.facts.signature.kind
    if kind in (Kind.SLOWDOWN, Kind.MEMORY, Kind.ORACLE):
        measurer = "your oracle checks it" if kind is Kind.ORACLE else "repro-kit measures it"
        reason = f"repro.py runs the script, and does not check the {kind} itself: {measurer}"
    elif kind.policy.measured:
        reason = f"{kind} is counted over a run of the script, not of a graph"
    elif results.capture is not None and results.capture.subject == "program":
        reason = ""  # the check of the program says why the program is not used
    else:
        note = results.capture.note if results.capture else ""  # the case names all graphs that were tried
        reason = "; ".join(note.split("; ")[:2]) or "no graph was captured"
    record = case.stage("minify")
    unreduced = record.note if record is not None and record.status == "done" and results.reduction is None else ""
    return ReproForm(results.facts, limit, "; ".join(filter(None, [reason, unreduced])))


def as_sentence(text: str) -> str:
    """``The captured program is not reduced.`` of a note; empty for none."""
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""
