"""Run many command lines of repro-kit in one process. Measures each one's peak memory, time and output.

    python attempts.py ASKED.json TOLD.json

ASKED is a list of command lines, TOLD becomes a list of `Told`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_LONGEST = 60  # seconds: a command that takes longer counts as a hang


@dataclass(frozen=True)
class Told:
    """How one command line ended, and what it printed."""

    argv: list[str]
    exit: int | None  # None: the command hung, or raised an exception
    grown: int  # bytes: the largest growth of the process's memory
    seconds: float
    output: str

    @property
    def is_one_sentence(self) -> bool:
        """Whether the command was refused in the way that bad input is."""
        return self.exit == 2 and "unexpected" not in self.output and "Traceback" not in self.output


def run_all(commands: Sequence[Sequence[str]], scratch: Path, *, terminal: bool = False) -> list[Told]:
    """Run the commands in a process of their own, in `scratch`. `terminal`: their output claims to be one."""
    asked, results = scratch / "asked.json", scratch / "told.json"
    asked.write_text(json.dumps([list(map(str, words)) for words in commands]))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "ATTEMPTS_TERMINAL": "1" if terminal else ""}
    subprocess.run(
        [sys.executable, __file__, str(asked), str(results)], cwd=scratch, env=env, check=True, stdin=subprocess.DEVNULL
    )
    return [Told(**load) for load in json.loads(results.read_text())]


class _Out(io.TextIOWrapper):
    """An output stream in memory."""

    def isatty(self) -> bool:
        return bool(os.environ.get("ATTEMPTS_TERMINAL"))


class _HangError(BaseException):
    """The command did not end in time."""


def _hang(*_: object) -> None:
    raise _HangError


def _one_line(argv: list[str]) -> Told:
    from repro_kit.cli.main import main

    out = _Out(io.BytesIO(), "utf-8", "surrogateescape", write_through=True)
    before, started = _reset(), time.monotonic()
    signal.signal(signal.SIGALRM, _hang)
    signal.alarm(_LONGEST)
    code: int | None = None
    note = ""
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main(argv)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException as error:
        note = f"Traceback: {type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    text = out.buffer.getvalue().decode("utf-8", "surrogateescape")  # type: ignore[attr-defined]
    return Told(argv, code, max(_peak() - before, 0), round(time.monotonic() - started, 2), text[:200_000] + note)


def _reset() -> int:
    """Reset the measurement of the peak, and return the memory in use now, in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def _peak() -> int:
    return memory("VmHWM")


def memory(name: str) -> int:
    """Bytes of memory of this process: now (VmRSS), or at most so far (VmHWM). 0 where the system has no /proc."""
    with contextlib.suppress(OSError):
        match = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(match[1]) * 1024 if match else 0
    return 0


if __name__ == "__main__":
    _one_line(["--version"])
    done = [asdict(_one_line(argv)) for argv in json.loads(Path(sys.argv[1]).read_text())]
    Path(sys.argv[2]).write_text(json.dumps(done))
