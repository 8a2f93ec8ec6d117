"""Measurements of one run of the user's script."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import median_low

#: A digest of one tensor: shape, dtype, sum of magnitudes (None for a large tensor), some elements.
Digest = tuple[tuple[int, ...], str, float | None, tuple[float, ...]]


@dataclass(frozen=True)
class MeasuredCall:
    """One call of a compiled function from plain Python. A digest is None if the values could not be read."""

    name: str
    seconds: float  # wall time
    compiled: bool  # something was compiled in it
    result: tuple[Digest, ...] | None = None
    inputs: tuple[Digest, ...] | None = None  # the arguments after the call


@dataclass(frozen=True)
class MeasuredRun:
    """The measurements of one run. `ops` counts the operators of each frame's largest graph: recompiles do not add."""

    ended: str  # "exit status 0"
    seconds: float = 0.0
    compiles: int = 0
    recompiles: int = 0
    graph_breaks: int = 0
    limit_hits: int = 0
    failures: int = 0
    ops: int = 0
    compile_seconds: float = 0.0
    place: str = ""  # the directory of the run's output
    calls: tuple[MeasuredCall, ...] = field(default=(), repr=False)
    stdout: str = field(default="", repr=False)

    def bare(self) -> MeasuredRun:
        """The run without its calls and its output."""
        return replace(self, calls=(), stdout="")


@dataclass(frozen=True)
class Steady:
    """Seconds of a call that compiles nothing, before and after a change: medians over the same calls of both runs.

    The median of two calls is the faster one, so that one call which waited for a core does not decide.
    """

    before: float
    after: float
    calls: int

    @property
    def ratio(self) -> float:
        """`after` divided by `before`."""
        return self.after / self.before if self.before else 1.0


def steady(before: MeasuredRun, after: MeasuredRun) -> Steady | None:
    """The steady-state times; None when no call of the script compiles nothing in both runs."""
    pairs = [
        (call_before.seconds, call_after.seconds)
        for call_before, call_after in zip(before.calls, after.calls, strict=False)
        if call_before.name == call_after.name and not call_before.compiled and not call_after.compiled
    ]
    if not pairs:
        return None
    return Steady(median_low(seconds for seconds, _ in pairs), median_low(two for _, two in pairs), len(pairs))
