"""The part of a failure that must stay the same while everything else shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from repro_kit.model.failure import Kind


class Strength(StrEnum):
    """How much of two signatures must agree.

    `STRICT` (between candidates of one search) compares everything. `REBASED` (after a change of subject or backend,
    e.g. from script to program) ignores what that change itself alters: wrapper exceptions, where a difference shows.
    `CROSS_VERSION` (another torch) ignores frames as well.
    """

    STRICT = "strict"
    REBASED = "rebased"
    CROSS_VERSION = "cross-version"


@dataclass(frozen=True)
class Signature:
    """Normalised facts about a failure: no addresses, numbers, paths or generated names."""

    kind: Kind
    exceptions: tuple[str, ...] = ()  # type names, outermost first
    message: str = ""  # of the root cause, or the first `error:` line of a native compiler
    frames: tuple[str, ...] = ()  # innermost frames inside torch, "file.py:function", innermost first
    signal: str | None = None  # class of signal: "memory" or "SIGABRT", "SIGFPE", …
    op: str | None = None
    difference: str | None = None  # kind of difference
    magnitude: float = 0.0  # of the difference: max_rel; a candidate must keep a share of it

    def matches(self, other: Signature, strength: Strength = Strength.STRICT) -> bool:
        """Whether `other` is the same failure as this one (the original), at the given strength."""
        raise NotImplementedError

    def summary(self) -> str:
        """One line for people: ``InductorError: AssertionError in cpp.py:store``."""
        raise NotImplementedError
