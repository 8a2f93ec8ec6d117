"""What was measured in one run of the user's script."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import median

#: A digest of one tensor: shape, dtype, sum of magnitudes (None: too large), some elements.
Digest = tuple[tuple[int, ...], str, float | None, tuple[float, ...]]


@dataclass(frozen=True)
class MeasuredCall:
    """One call of a compiled function from plain Python; digests are None where the values could not be read."""

    name: str
    seconds: float
    compiled: bool  # something was compiled in it
    result: tuple[Digest, ...] | None = None
    inputs: tuple[Digest, ...] | None = None  # as they were afterwards


@dataclass(frozen=True)
class MeasuredRun:
    """The numbers of one run. `ops` are those of the largest graph of each frame: recompiles do not raise it."""

    ended: str  # "exit status 0"
    seconds: float = 0.0
    compiles: int = 0
    recompiles: int = 0
    graph_breaks: int = 0
    limit_hits: int = 0
    failures: int = 0
    ops: int = 0
    compile_seconds: float = 0.0
    place: str = ""  # where its output is
    calls: tuple[MeasuredCall, ...] = field(default=(), repr=False)
    stdout: str = field(default="", repr=False)

    def bare(self) -> MeasuredRun:
        """The numbers alone."""
        return replace(self, calls=(), stdout="")


@dataclass(frozen=True)
class Steady:
    """Time of a call that compiles nothing, before and after: the medians over the same calls of both runs."""

    before: float
    after: float
    calls: int

    @property
    def ratio(self) -> float:
        """How many times as long it takes afterwards."""
        return self.after / self.before if self.before else 1.0


def steady(before: MeasuredRun, after: MeasuredRun) -> Steady | None:
    """The steady-state times; None when no call compiled in neither run."""
    pairs = [
        (one.seconds, two.seconds)
        for one, two in zip(before.calls, after.calls, strict=False)
        if one.name == two.name and not one.compiled and not two.compiled
    ]
    if not pairs:
        return None
    return Steady(median(one for one, _ in pairs), median(two for _, two in pairs), len(pairs))
