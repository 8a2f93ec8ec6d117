"""Decide whether a suggestion helped: by the number that it should lower, and by the results of the script."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from repro_kit.explain.context import counted
from repro_kit.explain.extra_run import Digest, MeasuredCall, MeasuredRun, Steady, steady
from repro_kit.explain.suggestion import Aim, AppliedChange, Suggestion
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.overview import COMPILED
from repro_kit.trace.places import CompileRef, is_users


def measured(
    insights: Insights, ended: str, seconds: float, calls: tuple[MeasuredCall, ...] = (), stdout: str = ""
) -> MeasuredRun:
    """The numbers in the trace of a run, with the other measurements."""
    compiles, totals = insights.overview.compiles, insights.totals
    largest: dict[object, int] = {}
    opened = _opened(insights)
    for compile_ in compiles:
        if compile_.state in COMPILED and compile_.ref not in opened:
            code = compile_.code or compile_.ref.frame_id
            largest[compile_.ref.log, code] = max(largest.get((compile_.ref.log, code), 0), compile_.ops)
    return MeasuredRun(
        ended,
        seconds,
        compiles=totals.graphs,
        recompiles=totals.recompiles,
        graph_breaks=totals.graph_breaks,
        limit_hits=totals.limit_hits,
        failures=totals.failures,
        ops=sum(largest.values()),
        compile_seconds=round(insights.overview.seconds, 2),
        calls=calls,
        stdout=stdout,
    )


def _opened(insights: Insights) -> set[CompileRef]:
    """Compiles of a library's code that a graph break left to run, and that are gone with the break."""
    places = {(one.where.file, one.where.line) for one in insights.breaks if one.where and is_users(one.where.file)}
    codes = {compile_.ref: compile_.code for compile_ in insights.overview.compiles}
    opened: set[CompileRef] = set()
    above: list[bool] = []  # by depth: whether a frame at or above it is the place of a break
    for node in insights.overview.tree:
        del above[node.depth :]
        above.append((above[-1] if above else False) or (node.frame.file, node.frame.line) in places)
        if above[-1]:
            opened.update(ref for ref in node.compiles if (code := codes.get(ref)) and not is_users(code.file))
    return opened


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


_SLOWER = 1.5  # times the steady-state time; a smaller change is noise on most machines
_FASTER_COMPILE = 0.8
_STEADY = (Aim.GRAPH_BREAKS, Aim.FAILURES)  # equal in every run of a deterministic script
_SHORT = 2e-4  # seconds; a call may get longer by this much


class Ruling(StrEnum):
    """The result of trying a suggestion."""

    HELPS = "helps"
    WITHDRAWN = "withdrawn"
    UNTRIED = "untried"


@dataclass(frozen=True)
class Trial:
    """Suggestions that were applied together, and the measurements."""

    suggestions: tuple[Suggestion, ...]
    ruling: Ruling
    reason: str
    before: MeasuredRun | None = None
    after: MeasuredRun | None = None
    steady: Steady | None = None
    results: Results | None = None

    @property
    def score(self) -> tuple[int, ...]:
        """Lower is better: first what stops a graph, then compiles, then the number of suggestions."""
        after = self.after
        if after is None:
            return (0, 0, 0)
        return (after.failures + after.limit_hits + after.graph_breaks, after.compiles, len(self.suggestions))


def judge(
    suggestions: tuple[Suggestion, ...], before: MeasuredRun, after: MeasuredRun, again: MeasuredRun | None
) -> Trial:
    """Decide on `suggestions`; `again` is a second run of the unchanged script."""
    results = compare(before, after, again)
    time = steady(before, after)
    against = _against(before, after, results, time, _noise(before, again))
    aims = list(dict.fromkeys(suggestion.aim for suggestion in suggestions))
    gains = [gain for aim in aims if (gain := _gain(aim, before, after, again))]
    ruling = Ruling.HELPS if gains and not against else Ruling.WITHDRAWN
    missing = "; ".join(_no_gain(aim, before, after) for aim in aims)
    return Trial(
        suggestions, ruling, against or ", ".join(gains) or missing, before.bare(), after.bare(), time, results
    )


def better(trial: Trial, other: Trial) -> bool:
    """Whether `trial` has a lower score than `other`."""
    return trial.score < other.score


def _noise(before: MeasuredRun, again: MeasuredRun | None) -> float:
    time = steady(before, again) if again else None
    return max(time.ratio, 1 / time.ratio) if time and time.ratio else 1.0


def _against(before: MeasuredRun, after: MeasuredRun, results: Results, time: Steady | None, noise: float) -> str:
    if results.same is False:
        return results.sentence
    if after.failures > before.failures:
        return f"{after.failures - before.failures} more compiles fail"
    if after.ops < 0.95 * before.ops:
        return f"fewer ops are compiled: {before.ops} → {after.ops}"
    if after.limit_hits > before.limit_hits:
        return "more frames hit the recompile limit, and then run in eager"
    if time and time.ratio > _SLOWER * noise and time.after - time.before > _SHORT:
        return f"calls that compile nothing take {time.ratio:.1f} times as long"
    return ""


def _gain(aim: Aim, before: MeasuredRun, after: MeasuredRun, again: MeasuredRun | None) -> str:
    """What `after` lowers, in words; empty for no gain.

    A number that also drops in one of the two unchanged runs varies by itself, so its drop is no gain. Recompiles and
    times are not compared with the second unchanged run, because its caches and profile are warm.
    """
    before_amount, after_amount = amount(aim, before), amount(aim, after)
    least = min(before_amount, amount(aim, again)) if again and aim in _STEADY else before_amount
    enough = after_amount < _FASTER_COMPILE * before_amount if aim is Aim.COMPILE_SECONDS else after_amount < least
    return f"{before_amount:g} → {after_amount:g} {aim}" if enough else ""


def _no_gain(aim: Aim, before: MeasuredRun, after: MeasuredRun) -> str:
    if aim in _STEADY and amount(aim, after) < amount(aim, before):
        return f"a second unchanged run also has fewer than {amount(aim, before)} {aim}, so the number varies by itself"
    return f"still {amount(aim, after)} {aim}"


def amount(aim: Aim, measured: MeasuredRun) -> float:
    """The number that `aim` is about."""
    match aim:
        case Aim.GRAPH_BREAKS:
            return measured.graph_breaks
        case Aim.RECOMPILES:
            return measured.recompiles
        case Aim.LIMIT_HITS:
            return measured.limit_hits
        case Aim.FAILURES:
            return measured.failures
        case Aim.COMPILE_SECONDS:
            return round(measured.compile_seconds, 1)


@dataclass(frozen=True)
class Tried:
    """Two runs of the unchanged script, with empty (`cold`) and then filled caches (`warm`), and the trials."""

    cold: MeasuredRun
    warm: MeasuredRun
    trials: tuple[Trial, ...]
    further: str = ""  # torch's log about the first specialization


_MOST = 4  # trials after the one with all suggestions


def combined(helpful: Sequence[Trial], run: Callable[[tuple[Suggestion, ...]], Trial]) -> list[Trial]:
    """The combination that improves on the best of `helpful`, if there is one.

    All are tried at once first, else the best one with one other at a time. `run` tries several suggestions at once.
    """
    chosen = _worth_joining(sorted(helpful, key=lambda trial: trial.score))
    if len(chosen) < 2:
        return []
    best = chosen[0]
    together = run(tuple(suggestion for trial in chosen for suggestion in trial.suggestions))
    if _wins(together, best):
        return [together]
    winners: list[Trial] = []
    for trial in chosen[1 : 1 + _MOST] if len(chosen) > 2 else []:
        wider = run((*best.suggestions, *trial.suggestions))
        if _wins(wider, best):
            best, winners = wider, [wider]
    return winners


def change_of(suggestions: Sequence[Suggestion]) -> AppliedChange:
    """The changes of all suggestions in one."""
    joined = AppliedChange()
    for suggestion in suggestions:
        joined = joined.joined(suggestion.change or AppliedChange())
    return joined


def _wins(trial: Trial, best: Trial) -> bool:
    return trial.ruling is Ruling.HELPS and better(trial, best)


def _worth_joining(trials: Sequence[Trial]) -> list[Trial]:
    """The best of `trials`, and the compatible ones that lower something that the best one leaves."""
    kept = list(trials[:1])
    for trial in trials[1:]:
        after = trials[0].after
        left = after is not None and any(amount(suggestion.aim, after) for suggestion in trial.suggestions)
        if left and not any(change_of(chosen.suggestions).contradicts(change_of(trial.suggestions)) for chosen in kept):
            kept.append(trial)
    return kept
