"""Ask an interpreter a question: it runs code or a module of the probe, and the last line of JSON is the answer."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from repro_kit.errors import UsageError
from repro_kit.runner import supervised
from repro_kit.runner.supervised import with_probe
from repro_kit.serialize import from_data, loads

T = TypeVar("T")


class NoAnswer(UsageError):
    """The interpreter gave no answer; `said` is the line of its output that says why."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


@dataclass(frozen=True)
class Question:
    """What an interpreter runs: `code`, or a `module` of the probe. Both read what is asked, as JSON, from stdin.

    `failing` completes the message about an interpreter that prints no answer: "PYTHON <failing>".
    """

    seconds: float
    code: str = ""
    module: str = ""
    flags: tuple[str, ...] = ()
    failing: str = "does not work as a Python interpreter"


@dataclass(frozen=True)
class Probe:
    """An interpreter to ask, with the directory and the variables of its process (default: those of this process)."""

    python: str
    cwd: Path | None = None
    env: Mapping[str, str] | None = None

    def ask(self, question: Question, reply_type: type[T], asked: object = None) -> T:
        """Return the answer to `question` about `asked`. Raises NoAnswer, a UsageError."""
        env = os.environ if self.env is None else self.env
        words = ["-m", question.module] if question.module else ["-c", question.code]
        try:
            done = supervised.run(
                [self.python, *question.flags, *words],
                cwd=self.cwd,
                env=with_probe(env) if question.module else env,
                timeout=question.seconds,
                input=json.dumps(asked),
            )
        except OSError as error:
            raise self._no_answer(f"cannot be started: {error.strerror}", str(error.strerror)) from error
        except subprocess.TimeoutExpired:
            late = f"does not answer within {question.seconds:.0f} s"
            raise self._no_answer(late, late) from None
        for line in reversed(done.stdout.split("\n")):  # what runs at the end of the process may print more
            if line.startswith("{"):
                with suppress(ValueError):
                    return from_data(loads(line), reply_type)
        said = _reason(done.stderr.strip() or done.stdout.strip())
        raise self._no_answer(f"{question.failing} ({said})", said)

    def _no_answer(self, what: str, said: str) -> NoAnswer:
        return NoAnswer(f"{self.python} {what}; give --python PATH.", said)


def _reason(output: str) -> str:
    """The line of `output` that says why: the last of a traceback, else the first, as of pyenv and conda."""
    lines = (output or "no output").splitlines()
    return lines[-1] if any(line.startswith("Traceback ") for line in lines) else lines[0]
