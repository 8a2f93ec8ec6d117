"""Run the user's script of a case in a fork of a process that has imported torch: a fifth of the time of a start.

For tests of what is made of a run. How a run is started, and what a first import does, needs a real start.
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
from typing import Any

import pytest

from repro_kit.probe.repro_probe.protocol.orders import ORDERS_PATH, PREFIX
from repro_kit.probe.repro_probe.protocol.queries import ScriptOrder
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.supervised import Run
from repro_kit.runner.supervised import launch as launched
from repro_kit.runner.write_orders import in_force
from repro_kit.subject import script_run

_OF_A_START = ("PYTHONPATH", "TORCH_TRACE")
_ASKED = threading.Lock()  # an oracle answers one thread at a time


@contextmanager
def subjects_in_forks(oracle: ProgramOracle) -> Iterator[None]:
    """Within this block, scripts of this interpreter run in forks of the zygote of `oracle`; all else starts anew."""

    def launch(argv: Sequence[str], *, stdout: Path, stderr: Path, **of_start: Any) -> Run:
        env, cwd = of_start["env"], of_start["cwd"]
        script = cwd / argv[-1]
        if argv[0] != sys.executable or len(argv) != 2 or script.suffix != ".py" or ORDERS_PATH not in env:
            return launched(argv, stdout=stdout, stderr=stderr, **of_start)
        with tempfile.TemporaryDirectory() as scratch, in_force(env):
            place = Path(scratch)
            run = _run(oracle, script, place, env, of_start["timeout"], of_start.get("on_tick"))
            _move(place / "stdout.txt", stdout)
            _move(place / "stderr.txt", stderr)
            _move(place / "probe", Path(_orders(env)["directory"]))
            if "TORCH_TRACE" in env:
                _move(place / "trace", Path(env["TORCH_TRACE"]))
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script_run, "launch", launch)
        yield


def _run(
    oracle: ProgramOracle,
    script: Path,
    place: Path,
    env: Mapping[str, str],
    timeout: float,
    on_tick: Callable[[float], None] | None,
) -> Run:
    orders = _orders(env)
    changed = {name: value for name, value in env.items() if os.environ.get(name) != value}
    order: ScriptOrder = {
        "text": script.read_text(encoding="utf-8"),
        "directory": str(place),
        "mode": orders["mode"],
        "options": {name: value for name, value in orders["options"].items() if name != "deadline"},  # type: ignore[typeddict-item]
        "env": {name: value for name, value in changed.items() if not name.startswith((PREFIX, *_OF_A_START))},
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
