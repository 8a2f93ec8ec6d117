"""The further run that asks torch for more about the first specialization: where its symbol and its guard come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from repro_kit.trace.guard_text import whole_source
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.specializations import Cause, Specialization
from repro_kit.trace.places import is_torch

_HEADER = re.compile(r"^[VDIWEC]\d{4} [\d:.]+ \d+ \S+?:\d+\] (?:\[[^\]]+\] )*")
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line \d+, in ')
_INNERMOST = 3  # frames of torch that are kept of each stack
_MOST_LINES = 80


def first_specialization(insights: Insights) -> Specialization | None:
    """The first one that the code decided on, where it was compiled again or the trace names no line of the user's."""
    found = next(
        (
            specialization
            for specialization in insights.specializations
            if specialization.cause == Cause.CODE and specialization.symbol
        ),
        None,
    )
    if found is None or (found.where and not recompiles_of(insights, found)):
        return None
    return found


def recompiles_of(insights: Insights, one: Specialization) -> list[str]:
    """The compile ids that came about since `one` is a constant: a guard on what it was made of failed."""
    refs = [
        str(ref)
        for recompile in insights.recompiles
        if recompile.code == one.code
        for reason in recompile.reasons
        if whole_source(reason.guard.source) in one.sources
        for ref in reason.compiles
    ]
    return list(dict.fromkeys(refs))


def variables(one: Specialization, own: Mapping[str, str], log: str) -> dict[str, str]:
    """The environment of that run; its log goes to the file `log`."""
    return {
        "TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED": f"Eq({one.symbol}, {one.value})",
        "TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL": one.symbol,
        "TORCH_LOGS": ",".join(filter(None, [own.get("TORCH_LOGS"), "dynamic"])),
        "TORCH_LOGS_OUT": log,
    }


def told(log: str, one: Specialization) -> str:
    """What torch's log says first of `one`: how its symbol and its guard came about, and what was replaced by it."""
    wanted = [
        f"create_symbol {one.symbol} ",
        f"Eq({one.symbol}, {one.value}) [guard added]",
        f"set_replacement {one.symbol} ",
    ]
    kept: list[str] = []
    head = ""  # what the lines of a message that is kept begin with
    for line in log.splitlines():
        found = _HEADER.match(line)
        rest = line[found.end() :] if found else line
        mark = next((mark for mark in wanted if mark in rest), None)
        if found and mark:
            wanted.remove(mark)
            head = found[0]
        elif found and found[0] != head:
            head = ""
        if head:
            kept.append(rest)
    return "\n".join([*_short(kept)][:_MOST_LINES])


def _short(lines: Sequence[str]) -> Iterator[str]:
    """`lines` without most of torch's own frames: the user's stay, and the last few of each stack."""
    frames: list[list[str]] = []
    for line in (*lines, ""):
        if _FRAME.match(line):
            frames.append([line])
        elif frames and line.startswith("    "):
            frames[-1].append(line)
        else:
            yield from _told_frames(frames)
            frames = []
            if line.strip() and not line.startswith("For C++ stack trace"):
                yield line


def _told_frames(frames: Sequence[list[str]]) -> Iterator[str]:
    """The user's frames, and the innermost of torch's below the machinery of symbolic shapes."""
    files = [found["file"] if (found := _FRAME.match(frame[0])) else "" for frame in frames]
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
