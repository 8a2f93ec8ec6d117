"""The cells of earlier runs, in a journal of the case, so that no cell is run again."""

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
    """The cells of one case, by key."""

    def __init__(self, case: Path, about: Iterable[object]) -> None:
        """`about`: everything that the cells depend on, except their recipes."""
        self._about = list(about)
        self._journal = JsonLinesJournal(
            case / _JOURNAL, lambda entry: from_data(entry["cell"], Cell), lambda cell: {"cell": to_data(cell)}
        )

    def find(self, parts: Iterable[object]) -> Cell | None:
        """The cell that was recorded with the same `parts`, which identify the run; None if there is none."""
        return self._journal.get(self._key(parts))

    def add(self, parts: Iterable[object], cell: Cell) -> None:
        """Record `cell`, unless it did not run or has no verdict."""
        if cell.verdict.status not in (Status.CANNOT_TELL, Status.NOT_RUN):
            self._journal.put(self._key(parts), cell)

    def _key(self, parts: Iterable[object]) -> str:
        data = orjson.dumps([to_data(part) for part in (*self._about, *parts)], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(data).hexdigest()[:24]
