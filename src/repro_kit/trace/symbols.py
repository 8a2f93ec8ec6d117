"""Whether anything was compiled with a symbolic size."""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.trace.record import Record


@dataclass
class Symbols:
    """`made`: symbols that were created, those that were specialized later among them."""

    made: int = 0

    def see(self, record: Record) -> None:
        """Count creations."""
        if record.event in ("create_symbol", "create_unbacked_symbol"):
            self.made += 1
