"""Write the findings of a run to their directory."""

from __future__ import annotations

import json
import os

from repro_probe.protocol.findings import finding
from repro_probe.protocol.orders import ProbeOptions


def write_whole(path: str, text: str) -> None:
    """Write the file `path` so that nobody sees half of it. Raises OSError."""
    aside = f"{path}.{os.getpid()}.part"
    with open(aside, "w", encoding="utf-8", errors="replace") as file:  # lone surrogates are not valid in a file
        file.write(text)
    os.replace(aside, path)


class FindingsDirectory:
    """The directory of this run's findings, and the options of the probe's mode."""

    def __init__(self, directory: str, options: ProbeOptions) -> None:
        self.directory = directory
        self.options = options

    def path(self, name: str, ending: str = "json") -> str:
        """Return the path of this process's file for the finding `name`."""
        return os.path.join(self.directory, finding(name, os.getpid(), ending))

    def write(self, name: str, data: object) -> None:
        """Write `data` as JSON, atomically."""
        write_whole(self.path(name), json.dumps(data, default=repr, ensure_ascii=False))

    def append(self, name: str, line: str) -> None:
        """Append one line to this process's file for the finding `name`."""
        with open(self.path(name, "jsonl"), "a", encoding="utf-8") as file:
            file.write(line + "\n")
