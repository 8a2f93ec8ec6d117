"""Cells that were judged before: a journal in the case, so that none is run again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import orjson

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.failure.failure import Status
from repro_kit.model.serialize import from_data, to_data

_JOURNAL = "ablate/cells.jsonl"


class Known:
    """The journal of one case. A cell counts under the key that it was written with, the last one of a key wins."""

    def __init__(self, case: Path, about: Iterable[object]) -> None:
        """`about`: all that the cells depend on beside their own recipes."""
        self._path = case / _JOURNAL
        self._about = list(about)
        self._cells = dict(self._read())

    def find(self, parts: Iterable[object]) -> Cell | None:
        """The cell that was written with the same `parts`, which tell what was run."""
        return self._cells.get(self._key(parts))

    def add(self, parts: Iterable[object], cell: Cell) -> None:
        """Write `cell` down, unless its run could not be made."""
        if cell.verdict.status in (Status.INFRA, Status.SKIPPED):
            return
        key = self._key(parts)
        self._cells[key] = cell
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(orjson.dumps({"key": key, "cell": to_data(cell)}, option=orjson.OPT_APPEND_NEWLINE))

    def _key(self, parts: Iterable[object]) -> str:
        data = orjson.dumps([to_data(part) for part in (*self._about, *parts)], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(data).hexdigest()[:24]

    def _read(self) -> Iterable[tuple[str, Cell]]:
        if not self._path.exists():
            return
        for line in self._path.read_bytes().splitlines():
            try:
                data = orjson.loads(line)
                yield data["key"], from_data(data["cell"], Cell)
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                continue  # half a line, as a kill leaves it: that cell is run again
