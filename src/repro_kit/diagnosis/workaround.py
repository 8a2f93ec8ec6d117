"""Workarounds: what makes the script work despite the bug, least intrusive first, and what each one costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from repro_kit.failure.failure import Measured, Status


class Intrusion(IntEnum):
    """How much of the compilation a workaround gives up; workarounds are listed in this order."""

    DISABLE = 0  # one function runs in eager
    FRAME = 1  # a whole function or module that was given to torch.compile runs in eager
    CONFIG = 2
    MODE = 3
    BACKEND = 4
    DYNAMIC = 5
    EAGER = 6


@dataclass(frozen=True)
class Workaround:
    """One workaround, tried on the script (`status`), with its cost in run time if this could be measured."""

    name: str  # "leave helper (train.py:12) to eager"
    intrusion: Intrusion
    lines: tuple[str, ...]  # code to paste
    place: str  # where the lines go: "above `def helper`, train.py:12"
    override: dict[str, Any] = field(default_factory=dict)  # the request that made the probe try it
    status: Status = Status.NOT_RUN
    outcome: str = ""  # what happens instead, if the workaround does not work
    to_eager: Measured | None = None  # time of a compiled call with the workaround, as a ratio to eager's
    to_compiled: Measured | None = None  # the same as a ratio to the compiled run without the workaround

    @property
    def works(self) -> bool:
        """Whether the script passed with this workaround."""
        return self.status is Status.PASS

    @property
    def cost(self) -> str:
        """The time of a call with its noise: ``0.43x eager [0.41 to 0.44], 1.20x compiled``."""
        if self.to_eager is None:
            return "run time not measured"
        compiled = f", {_ratio(self.to_compiled, 'compiled')}" if self.to_compiled is not None else ""
        return f"{_ratio(self.to_eager, 'eager')}{compiled}"


def _ratio(ratio: Measured, reference: str) -> str:
    noise = f" [{ratio.low:.2f} to {ratio.high:.2f}]" if ratio.low != ratio.high else ""
    return f"{ratio.value:.2f}x {reference}{noise}"


def ordered(workarounds: Sequence[Workaround]) -> tuple[Workaround, ...]:
    """Least intrusive first. Among equally intrusive ones, those that work come first."""
    return tuple(sorted(workarounds, key=lambda workaround: (workaround.intrusion, not workaround.works)))


def with_baseline(workarounds: Sequence[Workaround], compiled: Measured | None) -> tuple[Workaround, ...]:
    """`workarounds` with `to_compiled` filled in; `compiled` is the ratio of the unchanged compiled run to eager."""
    if compiled is None:
        return tuple(workarounds)
    return tuple(
        replace(workaround, to_compiled=_quotient(workaround.to_eager, compiled))
        if workaround.to_eager is not None
        else workaround
        for workaround in workarounds
    )


def _quotient(numerator: Measured, denominator: Measured) -> Measured:
    return Measured(
        numerator.value / denominator.value, numerator.low / denominator.high, numerator.high / denominator.low
    )


def rows(workarounds: Sequence[Workaround]) -> list[tuple[str, str, str]]:
    """Rows of a table: (name, whether it works, its cost or what happens instead)."""
    return [(workaround.name, *_outcome(workaround)) for workaround in workarounds]


def _outcome(workaround: Workaround) -> tuple[str, str]:
    if workaround.works:
        return "✓ works", workaround.cost
    if workaround.status is Status.FLAKY:
        return "~ sometimes", workaround.outcome
    return "✗ does not help", workaround.outcome


def markdown(workarounds: Sequence[Workaround]) -> str:
    """The workarounds that work as Markdown for an issue, with the lines to paste; "" when none works."""
    return "\n".join(_markdown(workarounds))


def _markdown(workarounds: Sequence[Workaround]) -> Iterator[str]:
    working = [workaround for workaround in workarounds if workaround.works]
    if working:
        yield "Workarounds, least intrusive first. Each was tried; the time of a call is given as a ratio:\n"
    for workaround in working:
        yield f"- {workaround.name}: {workaround.cost}; {workaround.place}:\n"
        yield from ("  ```python", *(f"  {line}" for line in workaround.lines), "  ```")
    failed = [
        workaround.name for workaround in workarounds if not workaround.works and workaround.status is Status.FAIL
    ]
    if working and failed:
        yield f"\nTried without success: {'; '.join(failed)}."
