"""Extra runs of the user's script: what they measured, and where the first specialization comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low

from repro_kit.trace.dynamo_text import whole_source
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.specializations import Cause, Specialization
from repro_kit.trace.places import is_torch

_HEADER = re.compile(r"^[VDIWEC]\d{4} [\d:.]+ \d+ \S+?:\d+\] (?:\[[^\]]+\] )*")
_FRAME = re.compile(r'^  File "(?P<file>.+)", line \d+, in ')
_INNERMOST = 3  # frames of torch that are kept in each stack
_MOST_LINES = 80


def first_specialization(insights: Insights) -> Specialization | None:
    """The first specialization that the user's code caused.

    None if its line is known and it caused no recompile.
    """
    first = next(
        (
            specialization
            for specialization in insights.specializations
            if specialization.cause == Cause.CODE and specialization.symbol
        ),
        None,
    )
    if first is None or (first.where and not recompiles_of(insights, first)):
        return None
    return first


def recompiles_of(insights: Insights, specialization: Specialization) -> list[str]:
    """The compile ids of recompiles because `specialization` was a constant."""
    refs = [
        str(ref)
        for recompile in insights.recompiles
        if recompile.code == specialization.code
        for reason in recompile.reasons
        if whole_source(reason.guard.source) in specialization.sources
        for ref in reason.compiles
    ]
    return list(dict.fromkeys(refs))


def variables(specialization: Specialization, own: Mapping[str, str], log: str) -> dict[str, str]:
    """The environment variables of the extra run, which logs to the file `log`."""
    return {
        "TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED": f"Eq({specialization.symbol}, {specialization.value})",
        "TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL": specialization.symbol,
        "TORCH_LOGS": ",".join(filter(None, [own.get("TORCH_LOGS"), "dynamic"])),
        "TORCH_LOGS_OUT": log,
    }


def log_about(log: str, specialization: Specialization) -> str:
    """The parts of torch's log about `specialization`: its symbol, its guard, and its replacement."""
    wanted = [
        f"create_symbol {specialization.symbol} ",
        f"Eq({specialization.symbol}, {specialization.value}) [guard added]",
        f"set_replacement {specialization.symbol} ",
    ]
    kept: list[str] = []
    head = ""  # header of the message that is being kept
    for line in log.splitlines():
        header = _HEADER.match(line)
        rest = line[header.end() :] if header else line
        mark = next((mark for mark in wanted if mark in rest), None)
        if header and mark:
            wanted.remove(mark)
            head = header[0]
        elif header and header[0] != head:
            head = ""
        if head:
            kept.append(rest)
    return "\n".join([*_short(kept)][:_MOST_LINES])


def _short(lines: Sequence[str]) -> Iterator[str]:
    """`lines` without most frames of torch: the user's frames stay, and the last few of each stack."""
    frames: list[list[str]] = []
    for line in (*lines, ""):
        if _FRAME.match(line):
            frames.append([line])
        elif frames and line.startswith("    "):
            frames[-1].append(line)
        else:
            yield from _shown_frames(frames)
            frames = []
            if line.strip() and not line.startswith("For C++ stack trace"):
                yield line


def _shown_frames(frames: Sequence[list[str]]) -> Iterator[str]:
    """The user's frames, and the innermost frames of torch outside of symbolic shapes."""
    files = [match["file"] if (match := _FRAME.match(frame[0])) else "" for frame in frames]
    inner = [at for at, file in enumerate(files) if is_torch(file) and "/fx/experimental/" not in file][-_INNERMOST:]
    left = 0
    for at, (file, frame) in enumerate(zip(files, frames, strict=True)):
        if is_torch(file) and at not in inner:
            left += 1
            continue
        if left:
            yield f"  … {left} of torch's"
            left = 0
        yield from (line.replace(file, file.rpartition("-packages/")[2]) if is_torch(file) else line for line in frame)
    if left:
        yield f"  … {left} of torch's"


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
