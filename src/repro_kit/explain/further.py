"""The further run that asks torch for more about the first specialization: where its symbol and its guard come from."""

from __future__ import annotations

import re
from collections.abc import Mapping

from repro_kit.trace.guard_text import whole_source
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.specializations import Cause, Specialization

_HEADER = re.compile(r"^[VDIWEC]\d{4} [\d:.]+ \d+ \S+?:\d+\] (?:\[[^\]]+\] )*")
_MOST_LINES = 120


def first_specialization(insights: Insights) -> Specialization | None:
    """The first one that the code decided on, where it was compiled again or the trace names no line of the user's."""
    found = next((it for it in insights.specializations if it.cause == Cause.CODE and it.symbol), None)
    if found is None or (found.where and not recompiles_of(insights, found)):
        return None
    return found


def recompiles_of(insights: Insights, one: Specialization) -> list[str]:
    """The compile ids that came about since `one` is a constant: a guard on what it was made of failed."""
    refs = [
        str(ref)
        for it in insights.recompiles
        if it.code == one.code
        for reason in it.reasons
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
    """What torch's log says of `one`: how its symbol and its guard came about, and what was replaced by it."""
    wanted = (
        f"create_symbol {one.symbol} ",
        f"Eq({one.symbol}, {one.value}) [guard added]",
        f"set_replacement {one.symbol} ",
    )
    kept: list[str] = []
    head = ""
    for line in log.splitlines():
        found = _HEADER.match(line)
        rest = line[found.end() :] if found else line
        if any(mark in rest for mark in wanted):
            head = found[0] if found else ""
        elif found and found[0] != head:
            head = ""
        if head and (not found or found[0] == head):
            kept.append(rest)
    return "\n".join(kept[:_MOST_LINES])
