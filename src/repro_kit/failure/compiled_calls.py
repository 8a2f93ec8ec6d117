"""The probe's measurements of compiled calls: time and memory taken in turns with eager, and compared results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from repro_kit.failure.differences import ResultErrors, state_difference
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Measured, Phase
from repro_kit.failure.kinds import Kind
from repro_kit.probe.repro_probe.protocol.failure_data import RANDOM_NUMBERS, UNSTEADY

_FLOOR = 1 << 20  # bytes: less memory than this is not due to the compiled code
_MOST_NAMED = 3

Pair = tuple[float, float]  # compiled, eager


@dataclass(frozen=True)
class CompiledCall:
    """Measurements of one callable that the script compiles (probe/repro_probe/calls)."""

    name: str  # "step at train.py:5"
    calls: int = 0  # number of calls that the script made
    backward: bool = False  # the script ran the backward too, so the measurement includes it
    rounds: tuple[Pair, ...] = ()  # seconds of one call
    memory: tuple[Pair, ...] = ()  # peak bytes of one call
    compared: int = 0  # number of calls that were compared with eager
    difference: Difference | None = None  # the worst difference
    also: tuple[Difference, ...] = ()
    tolerance: tuple[float, float] | None = None  # (rtol, atol)
    note: str = ""
    errors: tuple[ResultErrors, ...] = ()  # of the first call whose results differ, rightly or not
    rounding: bool = True  # eager's own rounding explains every difference of `errors`
    doubts: tuple[str, ...] | None = None  # why the results in eager are not defined, if a result differs
    random: bool = False  # the results agree once eager and compiled draw the same random numbers
    raised: str = ""  # says that only one of eager and compiled raises
    both: str = ""  # type of an exception of eager's call, if the compiled call raises as well
    lost: tuple[ExceptionLink, ...] = ()  # exceptions of eager's call, if the compiled call raises none
    problem: str = ""  # why the callable could not be measured
    watched: str = ""  # what sees which operators run while a call is made
    states: tuple[tuple[int, dict[str, Any], dict[str, Any]], ...] = ()  # call, state after it in eager, and compiled

    @property
    def undefined(self) -> str:
        """Why the results that differ are not defined, since eager alone may give others; empty where they are."""
        reasons = [doubt for doubt in self.doubts or () if doubt != RANDOM_NUMBERS]
        if self.difference is None:
            reasons += [part for part in self.note.split("; ") if part.startswith(UNSTEADY)]
        return "; ".join(reasons)


def slowdown(calls: Sequence[CompiledCall]) -> Measured | None:
    """The time of all calls of the script as a ratio to eager's; None when nothing was measured."""
    timed = [call for call in calls if call.rounds]
    if not timed:
        return None
    pairs = _together(timed, lambda call: call.rounds, lambda call: call.calls, sum)
    words = [
        f"{call.name} {_of(call.rounds)}{' (with backward)' * call.backward}"
        for call in sorted(timed, key=_excess)[::-1]
    ]
    return _ratio(pairs, _listed(words))


def extra_memory(calls: Sequence[CompiledCall]) -> Measured | None:
    """The peak memory of the calls as a ratio to eager's; None when nothing was measured."""
    seen = [call for call in calls if call.memory]
    if not seen:
        return None
    pairs = _together(seen, lambda call: call.memory, lambda call: 1, max)
    worst = max(seen, key=lambda call: statistics.median(compiled for compiled, _ in call.memory))
    compiled, eager = (statistics.median(pair[at] for pair in worst.memory) / 2**20 for at in (0, 1))
    words = f"{worst.name} {compiled:.1f} MiB compiled, {eager:.1f} MiB in eager"
    return _ratio(
        [(max(compiled_bytes, _FLOOR), max(eager_bytes, _FLOOR)) for compiled_bytes, eager_bytes in pairs], words
    )


def wrong_result(calls: Sequence[CompiledCall], *, rounding: bool = False) -> Failure | None:
    """The failure of the first callable whose compiled calls differ from eager's; None when no call differs.

    Results that are not defined in eager do not count. `rounding`: what eager's own rounding explains does.
    """
    call = next((call for call in calls if call.difference is not None and not call.undefined), None)
    if call is None:
        return _wrong_state(calls) or (_by_rounding(calls) if rounding else None)
    return Failure(
        Kind.ACCURACY,
        Phase.COMPARE,
        text=f"in {call.name}",
        difference=call.difference,
        also=call.also,
        tolerance=call.tolerance,
        doubts=call.doubts,
    )


def is_explained(calls: Sequence[CompiledCall]) -> bool:
    """Whether results of `calls` differ from eager's, and eager's own rounding explains every difference."""
    return any(call.errors for call in calls) and all(call.rounding and call.difference is None for call in calls)


def validation_lost(calls: Sequence[CompiledCall]) -> Failure | None:
    """The failure of the first callable that raises in eager and returns when it is compiled; None without one."""
    call = next((call for call in calls if call.lost), None)
    return Failure(Kind.VALIDATION, Phase.COMPARE, call.lost, text=f"in {call.name}") if call else None


def _wrong_state(calls: Sequence[CompiledCall]) -> Failure | None:
    """The failure of the first callable that leaves another Python state than eager; None without one."""
    for call in calls:
        for number, eager, compiled in call.states:
            difference = state_difference(eager, compiled, number)
            if difference is not None:
                return Failure(Kind.ACCURACY, Phase.COMPARE, text=f"in {call.name}", difference=difference)
    return None


def _by_rounding(calls: Sequence[CompiledCall]) -> Failure | None:
    call = next((call for call in calls if call.errors), None)
    if call is None:
        return None
    worst = max(call.errors, key=lambda row: row.gap / row.size if row.size else 0.0)
    relative = worst.gap / worst.size if worst.size else 0.0
    difference = Difference("value", worst.where, worst.gap, relative, worst.apart)
    return Failure(Kind.ACCURACY, Phase.COMPARE, text=f"in {call.name}", difference=difference, rounding=True)


def interval(values: Sequence[float]) -> Measured:
    """The median of `values` with its 95 % confidence interval, by order statistics (no assumption on the noise)."""
    ordered = sorted(values)
    count = len(ordered)
    at = max(0, math.floor((count - 1.96 * math.sqrt(count)) / 2))
    return Measured(statistics.median(ordered), ordered[at], ordered[count - 1 - at])


def _together(
    calls: Sequence[CompiledCall],
    of: Callable[[CompiledCall], Sequence[Pair]],
    weight: Callable[[CompiledCall], int],
    combine: Callable[[list[float]], float],
) -> list[Pair]:
    """Combine the callables' measurements round by round, each with its weight."""
    rounds = min(len(of(call)) for call in calls)
    return [
        (
            combine([weight(call) * of(call)[at][0] for call in calls]),
            combine([weight(call) * of(call)[at][1] for call in calls]),
        )
        for at in range(rounds)
    ]


def _ratio(pairs: Sequence[Pair], detail: str) -> Measured:
    ratio = interval([compiled / eager for compiled, eager in pairs])
    return Measured(ratio.value, ratio.low, ratio.high, detail)


def _of(pairs: Sequence[Pair]) -> str:
    compiled, eager = (statistics.median(pair[at] for pair in pairs) for at in (0, 1))
    return f"{_seconds(compiled)}, in eager {_seconds(eager)}"


def _excess(call: CompiledCall) -> float:
    """The extra seconds that compiling this callable costs the script."""
    return call.calls * statistics.median(compiled - eager for compiled, eager in call.rounds)


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def _listed(words: Sequence[str]) -> str:
    more = f"; and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return "; ".join(words[:_MOST_NAMED]) + more
