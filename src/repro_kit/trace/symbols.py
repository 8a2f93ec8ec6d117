"""Count the symbolic sizes in a trace."""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.trace.record import Record


@dataclass
class Symbols:
    """Counts the created symbols in `made`, including those that were specialized later."""

    made: int = 0

    def see(self, record: Record) -> None:
        """Count the creation of a symbol."""
        if record.event in ("create_symbol", "create_unbacked_symbol"):
            self.made += 1
