"""A unit: one case on one build. Its order and its result are one file each, so that any worker can run it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from repro_kit.model.failure.signature import Signature
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.reduce.flaky import Tally


@dataclass(frozen=True)
class UnitOrder:
    """What to run, and how often. `directory` holds the `repro.py`; all paths are absolute."""

    case: str
    line: str
    build: str
    attempt: int  # how many units of this case on this build were run before
    directory: str
    python: str
    variables: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 600.0  # seconds for one run
    passes: int = 1  # runs that must pass before the build counts as passing
    failures: int = 1  # runs to make once a run has failed: more than one measures the rate
    signature: Signature | None = None
    memory: float | None = None  # GiB for one run; None: most of the machine's
    hangs: bool = False  # a time-out is a hang: the case has ended in time before

    @property
    def name(self) -> str:
        """The name of the files of this unit, without a suffix."""
        readable = re.sub(r"[^A-Za-z0-9.+-]", "_", self.build)[-60:]
        digest = hashlib.sha256(f"{self.line}\0{self.build}".encode()).hexdigest()[:12]
        return f"{self.case[:16]}-{readable}-{digest}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The runs of one unit."""

    case: str
    line: str
    build: str
    attempt: int
    outcome: RunOutcome
    failed: int = 0  # runs that failed as expected
    passed: int = 0
    note: str = ""  # the other failure, or why the run was not possible
    seconds: float = 0.0  # of all runs
    at: str = ""  # ISO 8601, UTC
    failure: Signature | None = None  # of another failure than the expected one


@dataclass(frozen=True, slots=True)
class BuildVerdict:
    """All units of one case on one build, added up."""

    build: str
    outcome: RunOutcome
    failed: int = 0
    passed: int = 0
    note: str = ""
    seconds: float = 0.0
    units: int = 1

    @property
    def fails(self) -> bool:
        """Whether a run failed as expected."""
        return self.failed > 0

    @property
    def passes(self) -> bool:
        """Whether every run passed."""
        return self.outcome is RunOutcome.PASSES and not self.failed

    @property
    def tally(self) -> Tally:
        """The runs that tell something about the failure."""
        return Tally(self.failed, self.failed + self.passed)

    def __add__(self, later: BuildVerdict) -> BuildVerdict:
        failed = self.failed + later.failed
        return BuildVerdict(
            self.build,
            RunOutcome.FAILS_ALIKE if failed else later.outcome,
            failed,
            self.passed + later.passed,
            later.note or self.note,
            self.seconds + later.seconds,
            self.units + later.units,
        )


def verdict_of(unit: UnitResult) -> BuildVerdict:
    """The verdict that follows from one unit."""
    return BuildVerdict(unit.build, unit.outcome, unit.failed, unit.passed, unit.note, unit.seconds)
