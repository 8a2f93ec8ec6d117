"""Run the user's script of a case in a fork of a process that has imported torch: a fifth of the time of a start.

For tests of what is made of a run. How a run is started, and what a first import does, needs a real start: so does a
script whose last word is "anew".
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from repro_kit.probe.repro_probe.protocol.orders import ORDERS_PATH, PREFIX
from repro_kit.probe.repro_probe.protocol.queries import ScriptOrder
from repro_kit.runner.ask import Probe, Question
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.supervised import Run
from repro_kit.runner.supervised import launch as launched
from repro_kit.runner.write_orders import in_force
from repro_kit.subject import script_run

T = TypeVar("T")

ANEW = "anew"  # the last word of a command whose script starts anew
_OF_A_START = ("PYTHONPATH", "TORCH_TRACE")
_ASKED = threading.Lock()  # an oracle answers one thread at a time


@contextmanager
def subjects_in_forks(oracle: ProgramOracle) -> Iterator[None]:
    """Within this block, scripts of this interpreter run in forks of the zygote of `oracle`; all else starts anew."""

    def launch(argv: Sequence[str], *, stdout: Path, stderr: Path, **of_start: Any) -> Run:
        env, script = of_start["env"], of_start["cwd"] / "".join(argv[1:2])
        if argv[0] != sys.executable or script.suffix != ".py" or argv[-1] == ANEW or ORDERS_PATH not in env:
            return launched(argv, stdout=stdout, stderr=stderr, **of_start)
        with tempfile.TemporaryDirectory() as scratch, in_force(env):
            place = Path(scratch)
            text = _with_words(script.read_text(encoding="utf-8"), argv[2:])
            run = _run(oracle, script, text, place, env, of_start["timeout"], of_start.get("on_tick"))
            _move(place / "stdout.txt", stdout)
            _move(place / "stderr.txt", stderr)
            _move(place / "probe", Path(_orders(env)["directory"]))
            if "TORCH_TRACE" in env:
                _move(place / "trace", Path(env["TORCH_TRACE"]))
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script_run, "launch", launch)
        yield


class AskedOnce(Probe):
    """An interpreter that is asked each question once; what it has answered holds for all tests of this worker."""

    _answers: ClassVar[dict[tuple[str, Question], Any]] = {}

    def ask(self, question: Question, reply_type: type[T], asked: object = None) -> T:
        """The answer, of now or of before."""
        key = (self.python, question)
        if asked is not None:
            return super().ask(question, reply_type, asked)
        if key not in self._answers:
            self._answers[key] = super().ask(question, reply_type)
        answer: T = self._answers[key]
        return answer


def _with_words(text: str, words: Sequence[str]) -> str:
    """The script `text` as if it had been given `words`; each line keeps its number."""
    return f"import sys; sys.argv[1:] = {list(words)!r}; {text}" if words else text


def _run(
    oracle: ProgramOracle,
    script: Path,
    text: str,
    place: Path,
    env: Mapping[str, str],
    timeout: float,
    on_tick: Callable[[float], None] | None,
) -> Run:
    orders = _orders(env)
    changed = {name: value for name, value in env.items() if os.environ.get(name) != value}
    order: ScriptOrder = {
        "text": text,
        "directory": str(place),
        "mode": orders["mode"],
        "options": {name: value for name, value in orders["options"].items() if name != "deadline"},  # type: ignore[typeddict-item]
        "env": {name: value for name, value in changed.items() if not name.startswith((PREFIX, *_OF_A_START))},
        "env_before_torch": {},
        "recording": {"cwd": str(script.parent), "main": str(script), "file": str(place / "recorded.json")},
        "ranks": 1,
    }
    with _ASKED:
        (end,) = oracle.run_scripts([order], timeout=timeout)
    assert not end.problem, end.problem
    if on_tick is not None:
        on_tick(end.seconds)
    return end


def _orders(env: Mapping[str, str]) -> dict[str, Any]:
    orders: dict[str, Any] = json.loads(Path(env[ORDERS_PATH]).read_text(encoding="utf-8"))
    return orders


def _move(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)
