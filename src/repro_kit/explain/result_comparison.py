"""Whether two runs of a script had the same results, if that can be decided."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from repro_kit.explain.context import counted
from repro_kit.model.measure.measured_run import Digest, MeasuredCall, MeasuredRun

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")

#: Ten times the tolerances of torch.testing, since differences add up over steps: (rtol, atol) by dtype.
_TOLERANCES = {"torch.float16": (1e-2, 1e-4), "torch.bfloat16": (1.6e-1, 1e-4), "torch.float64": (1e-6, 1e-6)}
_USUAL = (1.3e-4, 1e-4)
_WELL = "exit status 0"


@dataclass(frozen=True)
class Results:
    """The comparison. `same` is None if undecided. `sentence` says what was compared, or where the runs differ."""

    same: bool | None
    sentence: str


def compare(before: MeasuredRun, after: MeasuredRun, again: MeasuredRun | None = None) -> Results:
    """Compare what compiled calls returned and what the script printed.

    `again` is a second run of the unchanged script; whatever differs between `before` and `again` is not compared. If
    `before` failed and `after` did not, only the part before the failure can be compared.
    """
    if after.ended not in {before.ended, _WELL}:
        return Results(False, f"the script ended differently: {after.ended}, before: {before.ended}")
    unsteady = again is not None and (
        len(before.calls) != len(again.calls) or _first_difference(before.calls, again.calls) is not None
    )
    if after.ended != before.ended:
        different = None if unsteady else _first_difference(before.calls, after.calls)
        ended = f"the script ended with {after.ended}, before: {before.ended}"
        return Results(False, different) if different else Results(None, ended)
    same_parts = []
    if not unsteady and before.calls and after.calls:
        if len(before.calls) != len(after.calls):
            return Results(False, f"{counted(len(after.calls), 'compiled call')}, before {len(before.calls)}")
        different = _first_difference(before.calls, after.calls)
        if different:
            return Results(False, different)
        pairs = zip(before.calls, after.calls, strict=True)
        compared = sum(first.result is not None and second.result is not None for first, second in pairs)
        if compared:
            same_parts.append(f"what {counted(compared, 'call')} returned")
    steady = _steady_lines(before.stdout, again.stdout if again else before.stdout)
    lines = _output_difference(before.stdout, after.stdout, steady)
    if lines is not None:
        return Results(False, lines)
    if steady and any(line.strip() for line in steady.values()):
        same_parts.append("the output")
    if unsteady and not same_parts:
        return Results(None, "two runs of the unchanged script differ from each other")
    if not same_parts:
        return Results(None, "no result of a compiled call was recorded, and nothing was printed")
    note = (
        "; results of calls were not compared, because they differ between two runs of the unchanged script"
        if unsteady
        else ""
    )
    return Results(True, f"the same: {' and '.join(same_parts)}{note}")


def _first_difference(before: Sequence[MeasuredCall], after: Sequence[MeasuredCall]) -> str | None:
    for number, (first, second) in enumerate(zip(before, after, strict=False), 1):
        if first.name != second.name:
            return f"call {number} is of {second.name}, before of {first.name}"
        if first.result is None or second.result is None:
            continue
        different = _difference(first.result, second.result)
        if different:
            return f"call {number} ({first.name}) returns {different}"
    return None


def _difference(before: Sequence[Digest], after: Sequence[Digest]) -> str | None:
    if len(before) != len(after):
        return f"{len(after)} tensors, before {len(before)}"
    for old, new in zip(before, after, strict=True):
        if old[:2] != new[:2]:
            return f"{new[1]} {list(new[0])}, before {old[1]} {list(old[0])}"
        rtol, atol = _TOLERANCES.get(old[1], _USUAL)
        for a, b in _numbers(old, new):
            if not close(a, b, rtol, atol):
                return f"{b:.6g}, before {a:.6g}"
    return None


def _numbers(before: Digest, after: Digest) -> Iterator[tuple[float, float]]:
    yield from zip(before[3], after[3], strict=False)
    if before[2] is not None and after[2] is not None:
        yield before[2], after[2]


def close(a: float, b: float, rtol: float, atol: float) -> bool:
    """Whether `b` is `a` within the tolerance; NaN equals NaN."""
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= atol + rtol * abs(a)


def _steady_lines(before: str, again: str) -> dict[int, str] | None:
    """The printed lines that two runs of the unchanged script share, by number. Only these lines are compared.

    None if the runs print different numbers of lines.
    """
    first, second = before.splitlines(), again.splitlines()
    if len(first) != len(second):
        return None
    return {at: line for at, (line, other) in enumerate(zip(first, second, strict=True)) if _same_line(line, other)}


def _output_difference(before: str, after: str, steady: Mapping[int, str] | None) -> str | None:
    """The first of the `steady` lines that differs; numbers may differ by rounding."""
    if steady is None:
        return None
    old_lines, new_lines = before.splitlines(), after.splitlines()
    if len(old_lines) != len(new_lines):
        return f"{len(new_lines)} lines printed, before {len(old_lines)}"
    for at, line in steady.items():
        if not _same_line(line, new_lines[at]):
            return f"line {at + 1} of the output: {new_lines[at].strip()[:80]!r}, before {line.strip()[:80]!r}"
    return None


def _same_line(first: str, second: str) -> bool:
    if _NUMBER.sub("0", first) != _NUMBER.sub("0", second):
        return False
    return all(
        close(float(a), float(b), *_USUAL) for a, b in zip(_NUMBER.findall(first), _NUMBER.findall(second), strict=True)
    )
