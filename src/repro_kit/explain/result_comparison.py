"""Whether two runs of a script had the same results, as far as that can be told honestly."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from repro_kit.explain.context import counted
from repro_kit.model.measure.measured_run import Digest, MeasuredCall, MeasuredRun

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")

#: Ten times torch.testing's, since differences add up over steps: (rtol, atol) by dtype.
_TOLERANCES = {"torch.float16": (1e-2, 1e-4), "torch.bfloat16": (1.6e-1, 1e-4), "torch.float64": (1e-6, 1e-6)}
_USUAL = (1.3e-4, 1e-4)
_WELL = "exit status 0"


@dataclass(frozen=True)
class Results:
    """`same` is None where it cannot be told; `sentence` says what was compared, or where they differ."""

    same: bool | None
    sentence: str


def compare(before: MeasuredRun, after: MeasuredRun, again: MeasuredRun | None = None) -> Results:
    """Compare what compiled calls returned and what the script printed.

    `again` is a second run of the script as it was: what differs between that and `before` is no evidence. Of a script
    that failed and ends well now, there is only what it did before it failed.
    """
    if after.ended not in {before.ended, _WELL}:
        return Results(False, f"it ended otherwise: {after.ended}, before: {before.ended}")
    unsteady = again is not None and (
        len(before.calls) != len(again.calls) or _first_difference(before.calls, again.calls) is not None
    )
    if after.ended != before.ended:
        different = None if unsteady else _first_difference(before.calls, after.calls)
        ended = f"it ended with {after.ended}, before: {before.ended}"
        return Results(False, different) if different else Results(None, ended)
    told = []
    if not unsteady and before.calls and after.calls:
        if len(before.calls) != len(after.calls):
            return Results(False, f"{counted(len(after.calls), 'compiled call')}, before {len(before.calls)}")
        different = _first_difference(before.calls, after.calls)
        if different:
            return Results(False, different)
        pairs = zip(before.calls, after.calls, strict=True)
        compared = sum(one.result is not None and two.result is not None for one, two in pairs)
        if compared:
            told.append(f"what {counted(compared, 'call')} returned")
    steady = _steady_lines(before.stdout, again.stdout if again else before.stdout)
    lines = _output_difference(before.stdout, after.stdout, steady)
    if lines is not None:
        return Results(False, lines)
    if steady and any(line.strip() for line in steady.values()):
        told.append("the output")
    if unsteady and not told:
        return Results(None, "two runs of the script as it is differ from each other")
    if not told:
        return Results(None, "of no compiled call it is known what it returned, and nothing was printed")
    note = "; what calls returned differs between two runs of the script as it is" if unsteady else ""
    return Results(True, f"the same: {' and '.join(told)}{note}")


def _first_difference(before: Sequence[MeasuredCall], after: Sequence[MeasuredCall]) -> str | None:
    for number, (one, two) in enumerate(zip(before, after, strict=False), 1):
        if one.name != two.name:
            return f"call {number} is of {two.name}, before of {one.name}"
        if one.result is None or two.result is None:
            continue
        different = _difference(one.result, two.result)
        if different:
            return f"call {number} ({one.name}) returns {different}"
    return None


def _difference(one: Sequence[Digest], two: Sequence[Digest]) -> str | None:
    if len(one) != len(two):
        return f"{len(two)} tensors, before {len(one)}"
    for first, second in zip(one, two, strict=True):
        if first[:2] != second[:2]:
            return f"{second[1]} {list(second[0])}, before {first[1]} {list(first[0])}"
        rtol, atol = _TOLERANCES.get(first[1], _USUAL)
        for a, b in _numbers(first, second):
            if not close(a, b, rtol, atol):
                return f"{b:.6g}, before {a:.6g}"
    return None


def _numbers(one: Digest, two: Digest) -> Iterator[tuple[float, float]]:
    yield from zip(one[3], two[3], strict=False)
    if one[2] is not None and two[2] is not None:
        yield one[2], two[2]


def close(a: float, b: float, rtol: float, atol: float) -> bool:
    """Whether `b` is `a` within the tolerance; NaN equals NaN."""
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= atol + rtol * abs(a)


def _steady_lines(before: str, again: str) -> dict[int, str] | None:
    """The printed lines that two runs of the script as it is share, by number: only those are evidence.

    None where not even their number is the same.
    """
    one, two = before.splitlines(), again.splitlines()
    if len(one) != len(two):
        return None
    return {at: line for at, (line, other) in enumerate(zip(one, two, strict=True)) if _same_line(line, other)}


def _output_difference(before: str, after: str, steady: Mapping[int, str] | None) -> str | None:
    """The first of the `steady` lines that differs; numbers up to rounding."""
    if steady is None:
        return None
    one, two = before.splitlines(), after.splitlines()
    if len(one) != len(two):
        return f"{len(two)} lines printed, before {len(one)}"
    for at, line in steady.items():
        if not _same_line(line, two[at]):
            return f"line {at + 1} of the output: {two[at].strip()[:80]!r}, before {line.strip()[:80]!r}"
    return None


def _same_line(one: str, two: str) -> bool:
    if _NUMBER.sub("0", one) != _NUMBER.sub("0", two):
        return False
    return all(
        close(float(a), float(b), *_USUAL) for a, b in zip(_NUMBER.findall(one), _NUMBER.findall(two), strict=True)
    )
