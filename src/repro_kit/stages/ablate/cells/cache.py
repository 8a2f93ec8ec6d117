"""Cells that were judged before: a journal in the case, so that none is run again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import orjson

from repro_kit.journal import JsonLinesJournal
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.failure.failure import Status
from repro_kit.model.serialize import from_data, to_data

_JOURNAL = "ablate/cells.jsonl"


class CellCache:
    """The judged cells of one case. A cell counts under the key that it was written with."""

    def __init__(self, case: Path, about: Iterable[object]) -> None:
        """`about`: all that the cells depend on beside their own recipes."""
        self._about = list(about)
        self._journal = JsonLinesJournal(
            case / _JOURNAL, lambda entry: from_data(entry["cell"], Cell), lambda cell: {"cell": to_data(cell)}
        )

    def find(self, parts: Iterable[object]) -> Cell | None:
        """The cell that was written with the same `parts`, which tell what was run."""
        return self._journal.get(self._key(parts))

    def add(self, parts: Iterable[object], cell: Cell) -> None:
        """Write `cell` down, unless its run could not be made."""
        if cell.verdict.status not in (Status.CANNOT_TELL, Status.NOT_RUN):
            self._journal.put(self._key(parts), cell)

    def _key(self, parts: Iterable[object]) -> str:
        data = orjson.dumps([to_data(part) for part in (*self._about, *parts)], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(data).hexdigest()[:24]
