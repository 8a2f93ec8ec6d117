"""What makes a script work now although the bug is there: ways out, least intrusive first, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

from repro_kit.model.failure.failure import Measured, Status


class Intrusion(IntEnum):
    """How much of what the user wants a workaround takes away; the order in which they are listed."""

    DISABLE = 0  # one function is left to eager
    FRAME = 1  # all of a function or module that torch.compile was given is
    CONFIG = 2
    MODE = 3
    BACKEND = 4
    DYNAMIC = 5
    EAGER = 6


@dataclass(frozen=True)
class Workaround:
    """One way out, tried on the script (`status`), with its cost in run time where that could be measured."""

    name: str  # "leave helper (train.py:12) to eager"
    intrusion: Intrusion
    lines: tuple[str, ...]  # to paste
    place: str  # where they go: "above `def helper`, train.py:12"
    override: dict[str, Any] = field(default_factory=dict)  # what the probe was told, to try it
    status: Status = Status.NOT_RUN
    outcome: str = ""  # what happens instead, where it does not work
    to_eager: Measured | None = None  # time of a compiled call with it, as a ratio to eager's
    to_compiled: Measured | None = None  # and to that of the compiled run without it, where that exists

    @property
    def works(self) -> bool:
        """Whether it was seen to make the script work."""
        return self.status is Status.PASS

    @property
    def cost(self) -> str:
        """``0.43x eager [0.41 to 0.44], 1.20x compiled``: the time of a call, with its noise."""
        if self.to_eager is None:
            return "run time not measured"
        compiled = f", {_ratio(self.to_compiled, 'compiled')}" if self.to_compiled is not None else ""
        return f"{_ratio(self.to_eager, 'eager')}{compiled}"


def _ratio(it: Measured, what: str) -> str:
    noise = f" [{it.low:.2f} to {it.high:.2f}]" if it.low != it.high else ""
    return f"{it.value:.2f}x {what}{noise}"


def ordered(found: Sequence[Workaround]) -> tuple[Workaround, ...]:
    """Least intrusive first; of one kind, those that work first, in the order they were found in."""
    return tuple(sorted(found, key=lambda it: (it.intrusion, not it.works)))


def with_baseline(found: Sequence[Workaround], compiled: Measured | None) -> tuple[Workaround, ...]:
    """`found` with their costs against the compiled run, whose own ratio to eager is `compiled`."""
    if compiled is None:
        return tuple(found)
    return tuple(
        replace(it, to_compiled=_quotient(it.to_eager, compiled)) if it.to_eager is not None else it for it in found
    )


def _quotient(one: Measured, other: Measured) -> Measured:
    return Measured(one.value / other.value, one.low / other.high, one.high / other.low)


def rows(found: Sequence[Workaround]) -> list[tuple[str, str, str]]:
    """For a table: (what, whether it works, its cost or what happens instead)."""
    return [(it.name, *_outcome(it)) for it in found]


def _outcome(it: Workaround) -> tuple[str, str]:
    if it.works:
        return "✓ works", it.cost
    if it.status is Status.FLAKY:
        return "~ sometimes", it.outcome
    return "✗ does not help", it.outcome


def markdown(found: Sequence[Workaround]) -> str:
    """For an issue: those that work, each with the lines to paste; empty when none does."""
    return "\n".join(_markdown(found))


def _markdown(found: Sequence[Workaround]) -> Iterator[str]:
    working = [it for it in found if it.works]
    if working:
        yield "Workarounds, least intrusive first, each tried; the time of a call as a ratio:\n"
    for it in working:
        yield f"- {it.name}: {it.cost}; {it.place}:\n"
        yield from ("  ```python", *(f"  {line}" for line in it.lines), "  ```")
    failed = [it.name for it in found if not it.works and it.status is Status.FAIL]
    if working and failed:
        yield f"\nTried, and no help: {'; '.join(failed)}."
