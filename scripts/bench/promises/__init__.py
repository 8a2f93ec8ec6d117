"""What docs/explanation/promises.md promises, one module a subject: each provokes breaches, and counts what held."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One promise: how many attempts to break it were made, how many it withstood, and the least share that will do."""

    promise: str
    tried: int
    held: int
    bar: float = 1.0
    broken: tuple[str, ...] = ()  # a line about each attempt that succeeded

    @property
    def kept(self) -> bool:
        """Whether enough attempts were withstood; a promise that was not tried is not kept."""
        return self.tried > 0 and self.held >= self.bar * self.tried
