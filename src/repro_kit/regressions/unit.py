"""A unit: one case on one build. It is run as often as its rules say; its order and its result are one file each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from repro_kit.failure.failure import Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature, Strength, outcome_of, signature_of
from repro_kit.reduce.flaky import MEASURE, Tally
from repro_kit.regressions.build import Mark
from repro_kit.visible import one_line

_LONGEST = 300  # characters of a note
#: Outcomes of a run that shows nothing of the failure.
UNDECIDED = (RunOutcome.CANNOT_TELL, RunOutcome.INVALID)
#: The outcome that a mark says.
OF_MARKS = {Mark.GOOD: RunOutcome.PASSES, Mark.BAD: RunOutcome.FAILS_ALIKE, Mark.SKIP: RunOutcome.CANNOT_TELL}


#: What repro-kit says of an outcome: "it fails".
WORDS = {
    RunOutcome.FAILS_ALIKE: "fails",
    RunOutcome.PASSES: "passes",
    RunOutcome.FAILS_OTHERWISE: "fails differently",
    RunOutcome.INVALID: "is not valid",
    RunOutcome.CANNOT_TELL: "cannot run",
}


@dataclass(frozen=True)
class UnitRules:
    """What counts as the failure of a case, and how often the case is run."""

    signature: Signature | None = None  # None: any failure
    passes: int = 1  # runs that must pass before the build counts as passing
    failures: int = 1  # runs to make once a run has failed: more than one measures the rate
    learns: bool = False  # without a signature, the first failure is the one that the others are compared with
    hangs: bool = False  # a time-out is a hang: the case has ended in time before
    on_timeout: Mark = Mark.SKIP  # of a time-out that is not a hang
    persists: bool = False  # runs go on after another failure

    def expected(self, unit: UnitResult) -> Signature | None:
        """The failure that the next run of `unit` is compared with; None: any."""
        return unit.failure if self.learns and self.signature is None and unit.failed else self.signature


@dataclass(frozen=True)
class UnitOrder:
    """What to run for a unit. `directory` holds the `repro.py`; all paths are absolute."""

    case: str
    line: str
    build: str
    attempt: int  # how many units of this case on this build were run before
    directory: str
    python: str
    variables: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 600.0  # seconds for one run
    rules: UnitRules = field(default_factory=UnitRules)
    memory: float | None = None  # GiB for one run; None: most of the machine's

    @property
    def name(self) -> str:
        """The name of the files of this unit, without a suffix."""
        readable = re.sub(r"[^A-Za-z0-9.+-]", "_", self.build)[-60:]
        digest = hashlib.sha256(f"{self.line}\0{self.build}".encode()).hexdigest()[:12]
        return f"{self.case[:16]}-{readable}-{digest}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The runs of a unit: those of one attempt, or of several attempts that are added up."""

    build: str
    outcome: RunOutcome = RunOutcome.PASSES
    failed: int = 0  # runs that failed as expected
    passed: int = 0
    note: str = ""  # the other failure, or why the run was not possible
    seconds: float = 0.0  # of all runs
    attempt: int = 0  # the last one
    at: str = ""  # when it began, ISO 8601, UTC
    failure: Signature | None = None  # another failure than the expected one; any failure, if none is expected
    others: int = 0  # runs with another failure
    seen: str = ""  # what decided the outcome, in words
    case: str = ""
    line: str = ""
    metrics: tuple[tuple[str, float], ...] = ()  # what the runs measured: a name and a number for each

    @property
    def fails(self) -> bool:
        """Whether a run failed as expected."""
        return self.failed > 0

    @property
    def passes(self) -> bool:
        """Whether every run passed."""
        return self.outcome is RunOutcome.PASSES and not self.failed

    @property
    def runs(self) -> int:
        """The runs that show whether the case fails."""
        return self.failed + self.passed + self.others

    @property
    def tally(self) -> Tally:
        """The runs that fail as expected, of those that fail so or pass."""
        return Tally(self.failed, self.failed + self.passed)

    def __add__(self, later: UnitResult) -> UnitResult:
        return replace(
            later,
            outcome=RunOutcome.FAILS_ALIKE if self.failed else later.outcome,
            failed=self.failed + later.failed,
            passed=self.passed + later.passed,
            others=self.others + later.others,
            note=later.note or self.note,
            seconds=self.seconds + later.seconds,
            failure=self.failure or later.failure,
            metrics=self.metrics + later.metrics,
        )


def now() -> str:
    """The present time as histories have it: ISO 8601, UTC, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_enough(unit: UnitResult, rules: UnitRules) -> bool:
    """Whether the runs of `unit` decide it."""
    if unit.outcome in UNDECIDED or (unit.others and not (unit.failed or rules.persists)):
        return True
    if not unit.failed:
        return unit.runs >= max(rules.passes, 1)
    mixed = unit.failed < unit.runs and rules.failures > 1
    return unit.runs >= (max(MEASURE, rules.failures) if mixed else rules.failures)


def with_run(unit: UnitResult, verdict: Verdict, rules: UnitRules, *, timed_out: bool = False) -> UnitResult:
    """`unit` with one more run. A failure as expected decides it; another failure decides more than a pass."""
    outcome, seen, failure = _judged(verdict, rules, rules.expected(unit), timed_out=timed_out)
    order = [RunOutcome.FAILS_ALIKE, *UNDECIDED, RunOutcome.FAILS_OTHERWISE, RunOutcome.PASSES]
    leads = order.index(outcome) <= order.index(unit.outcome)
    is_expected = outcome in (RunOutcome.PASSES, RunOutcome.FAILS_ALIKE)
    return replace(
        unit,
        outcome=outcome if leads else unit.outcome,
        failed=unit.failed + (outcome is RunOutcome.FAILS_ALIKE),
        passed=unit.passed + (outcome is RunOutcome.PASSES),
        others=unit.others + (outcome is RunOutcome.FAILS_OTHERWISE),
        note=unit.note if is_expected else one_line(_words(verdict, timed_out=timed_out))[:_LONGEST],
        seconds=unit.seconds + verdict.seconds,
        failure=unit.failure or failure,
        seen=seen if leads else unit.seen,
    )


def _judged(
    verdict: Verdict, rules: UnitRules, expected: Signature | None, *, timed_out: bool
) -> tuple[RunOutcome, str, Signature | None]:
    """The outcome of a run, its result in words, and its failure unless that is the expected one.

    A time-out is a hang when the case is about a hang, or has ended in time on another build; it may only be slow else.
    """
    words = _words(verdict, timed_out=timed_out)
    if timed_out:
        if expected is not None and expected.kind.policy.hangs:
            return RunOutcome.FAILS_ALIKE, f"it fails: {words}", None
        if not rules.hangs:
            return OF_MARKS[rules.on_timeout], f"time-out ({verdict.note}), counted as {rules.on_timeout}", None
        verdict = replace(verdict, status=Status.FAIL, failure=Failure(Kind.TIMEOUT))
    outcome = outcome_of(verdict, expected, Strength.CROSS_VERSION)
    match outcome:
        case RunOutcome.PASSES:
            return outcome, "it passes", None
        case RunOutcome.FAILS_ALIKE:
            seen = f"it fails: {words}"
        case RunOutcome.FAILS_OTHERWISE:
            seen = f"another failure: {words}"
        case _:
            seen = f"it cannot run: {words}" if words else "it cannot run"
    is_known = outcome is RunOutcome.FAILS_ALIKE and expected is not None
    return outcome, seen, signature_of(verdict.failure) if verdict.failure and not is_known else None


def _words(verdict: Verdict, *, timed_out: bool) -> str:
    """The failure of a run in one line, or how the run ended."""
    return signature_of(verdict.failure).summary() if verdict.failure and not timed_out else verdict.note
