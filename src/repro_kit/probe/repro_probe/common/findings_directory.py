"""The directory of a run's findings."""

from __future__ import annotations

import json
import os

from repro_probe.protocol.findings import finding
from repro_probe.protocol.orders import ProbeOptions


class FindingsDirectory:
    """The directory of this run's findings, and the options of the mode."""

    def __init__(self, directory: str, options: ProbeOptions) -> None:
        self.directory = directory
        self.options = options

    def path(self, name: str, ending: str = "json") -> str:
        """A file of this process."""
        return os.path.join(self.directory, finding(name, os.getpid(), ending))

    def write(self, name: str, data: object) -> None:
        """Write `data` as JSON, whole or not at all."""
        path = self.path(name)
        with open(path + ".part", "w", encoding="utf-8", errors="replace") as file:  # lone surrogates are no JSON
            json.dump(data, file, default=repr, ensure_ascii=False)
        os.replace(path + ".part", path)

    def append(self, name: str, line: str) -> None:
        """Add one line to a text of this process."""
        with open(self.path(name, "jsonl"), "a", encoding="utf-8") as file:
            file.write(line + "\n")
