"""Keep the latest findings of the probe in memory, until a failure is a reason to write them."""

from __future__ import annotations

import collections
import logging
import os
from typing import Any

from repro_probe.common.run_files import FindingsDirectory
from repro_probe.record.trace_texts import run_no_code_of_the_program

_MOST_GRAPHS = 100
_MOST_EVENTS = 5000
_MOST_TRACE = 64 << 20  # characters


class Memory:
    """Stands in for a `FindingsDirectory`, and keeps the latest graphs and events."""

    directory = os.devnull  # no tensor value is stored

    def __init__(self) -> None:
        self.written: collections.OrderedDict[str, object] = collections.OrderedDict()
        self.lines: collections.deque[tuple[str, str]] = collections.deque(maxlen=_MOST_EVENTS)
        self.dropped = 0  # graphs

    @property
    def graphs(self) -> int:
        """The number of graphs that were recorded, with the dropped ones."""
        return len(self.written) + self.dropped

    def write(self, name: str, data: object) -> None:
        """Keep `data` under `name`."""
        self.written[name] = data
        if len(self.written) > _MOST_GRAPHS:
            self.written.popitem(last=False)
            self.dropped += 1

    def append(self, name: str, line: str) -> None:
        """Keep a line under `name`."""
        self.lines.append((name, line))

    def write_to(self, findings: FindingsDirectory) -> None:
        """Write all graphs and events to `findings`."""
        for name, data in list(self.written.items()):
            findings.write(name, data)
        for name, line in list(self.lines):
            findings.append(name, line)


class TraceMemory(logging.Handler):
    """The latest records of torch's structured trace, in the form of TORCH_TRACE."""

    def __init__(self) -> None:
        super().__init__()
        self.log: logging.Logger | None = None
        self.records: collections.deque[str] = collections.deque()
        self.size = 0

    def start(self, module: Any) -> None:
        """Start listening. `module` is torch._logging._internal."""
        log, formatter = getattr(module, "trace_log", None), getattr(module, "TorchLogsFormatter", None)
        if log is None or formatter is None:  # a torch without a structured trace
            return
        self.log = log
        self.setFormatter(formatter(trace=True))
        log.setLevel(logging.DEBUG)
        log.addHandler(self)
        run_no_code_of_the_program()

    def stop(self) -> None:
        """Stop listening."""
        if self.log is not None:
            self.log.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        self.records.append(text)
        self.size += len(text)
        while self.size > _MOST_TRACE:
            self.size -= len(self.records.popleft())

    def write_to(self, directory: str) -> None:
        """Write the records as a log file, if there are any."""
        if not self.records:
            return
        path = os.path.join(directory, f"dedicated_log_torch_trace_watched{os.getpid()}.log")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(_names())
            file.writelines(text + "\n" for text in list(self.records))


def _names() -> str:
    """Return records for the file names that torch numbered before the handler listened."""
    import json

    from torch._logging import structured

    head = f"V0101 00:00:00.000000 {os.getpid()} torch/_logging/structured.py:0] "
    table = dict(getattr(structured, "INTERN_TABLE", {}))
    return "".join(head + json.dumps({"str": [name, number]}) + "\n" for name, number in table.items())
