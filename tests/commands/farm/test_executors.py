"""Units on submitit, on Dask, and on an executor of the user's own; workers that are lost."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from repro_kit.cli.main import cli

ON = ("--on", sys.executable, "--package", "click", "--yes", "--json")
MINE = """
from concurrent.futures import Future
class Mine:
    def submit(self, function, *arguments):
        future = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future
class Loses(Mine):
    lost = 0
    def submit(self, function, *arguments):
        if Loses.lost < 4:
            Loses.lost += 1
            return _gone()
        return Mine.submit(self, function, *arguments)
def _gone():
    future = Future()
    future.set_exception(OSError("the worker is gone"))
    return future
class Gone:
    def submit(self, function, *arguments):
        return _gone()
def broken():
    raise RuntimeError("no cluster today")
nothing = object
"""


@pytest.fixture
def farm(project: Path) -> Callable[..., Result]:
    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["farm", *words], prog_name="repro-kit")

    return run


def add_cases(farm: Callable[..., Result], project: Path, count: int, seconds: float = 0) -> Path:
    """Cases that write their number to a log, and fail each in its own way. Returns the log."""
    log = project / "log"
    for number in range(count):
        (project / f"case{number}").mkdir()
        text = f"import time\nopen({str(log)!r}, 'a').write('{number} ')\ntime.sleep({seconds})\n"
        (project / f"case{number}" / "repro.py").write_text(f"{text}raise ValueError('failure of number {number}')\n")
    assert farm("add", *(f"case{number}" for number in range(count))).exit_code == 0
    return log


def outcomes(farm: Callable[..., Result]) -> list[str]:
    data = json.loads(farm("export").stdout)
    return [unit[data["units"].index("outcome")] for case in data["cases"] for unit in case["units"]]


def test_words_that_name_no_executor_are_named(farm: Callable[..., Result], project: Path) -> None:
    add_cases(farm, project, 1)
    Path("mine.py").write_text(MINE)
    for word, sentence in (
        ("cluster", "--executor takes local, submitit"),
        ("ftp://host", "--executor takes local, submitit"),
        ("no_such_module:make", "No module named 'no_such_module'"),
        ("mine:missing", "has no attribute 'missing'"),
        ("mine:broken", "no cluster today"),
        ("mine:nothing", "has no method `submit`"),
    ):
        result = farm("run", *ON, "--executor", word)
        assert (result.exit_code, sentence in " ".join(result.output.split())) == (2, True), result.output


def test_an_executor_of_the_user_s_own_may_lose_workers(farm: Callable[..., Result], project: Path) -> None:
    add_cases(farm, project, 2)
    Path("mine.py").write_text(MINE)
    result = farm("run", *ON, "--executor", "mine:Loses")
    assert (result.exit_code, json.loads(result.stdout)["units"]) == (0, 2), result.output
    assert outcomes(farm) == ["same", "same"]  # four losses of two units with three tries each
    assert result.stderr.count("was lost (the worker is gone)") == 4
    assert list((project / "farm" / "orders").iterdir()) == []
    gone = farm("run", *ON, "--executor", "mine:Gone", "--farm", "farm")
    assert json.loads(gone.stdout)["units"] == 0  # nothing is due


def test_without_any_worker_nothing_is_recorded(farm: Callable[..., Result], project: Path) -> None:
    add_cases(farm, project, 2)
    Path("mine.py").write_text(MINE)
    result = farm("run", *ON, "--executor", "mine:Gone")
    assert (result.exit_code, "No worker could run a unit: the worker is gone" in result.output) == (125, True)
    assert outcomes(farm) == []


def test_submitit_runs_units_and_refuses_odd_options(farm: Callable[..., Result], project: Path) -> None:
    pytest.importorskip("submitit")
    log = add_cases(farm, project, 2)
    odd = farm("run", *ON, "--executor", "submitit:cluster=local,partitionn=dev")
    assert (odd.exit_code, "submitit refuses it" in odd.output) == (2, True), odd.output
    result = farm("run", *ON, "--executor", "submitit:cluster=local,partition=dev", "--workers", "2")
    assert (result.exit_code, json.loads(result.stdout)["units"]) == (0, 2), result.output
    assert outcomes(farm) == ["same", "same"]
    assert Counter(log.read_text().split()) == {"0": 5, "1": 5}


@pytest.mark.slow
def test_a_lost_worker_of_submitit_costs_its_unit(farm: Callable[..., Result], project: Path) -> None:
    pytest.importorskip("submitit")
    log = add_cases(farm, project, 2, seconds=0.4)
    with killed_once(lambda process: "submitit.core._submit" in process.cmdline(), log, when=3):
        result = farm("run", *ON, "--executor", "submitit:cluster=local")
    assert (result.exit_code, result.stderr.count("was lost")) == (0, 1), result.output
    assert outcomes(farm) == ["same", "same"]
    runs = Counter(log.read_text().split())
    assert sorted(runs.values())[0] == 5  # the unit that was not lost ran once
    assert 5 < sorted(runs.values())[1] <= 10


@pytest.mark.slow
def test_a_lost_worker_of_dask_costs_its_unit(farm: Callable[..., Result], project: Path) -> None:
    distributed = pytest.importorskip("distributed")
    log = add_cases(farm, project, 4, seconds=0.4)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        pid = next(iter(cluster.workers.values())).pid
        address = cluster.scheduler_address.rpartition("/")[2]
        with killed_once(lambda process: process.pid == pid, log, when=4):
            result = farm("run", *ON, "--executor", f"dask://{address}")
    assert (result.exit_code, json.loads(result.stdout)["units"]) == (0, 4), result.output
    assert outcomes(farm) == ["same"] * 4
    runs = sorted(Counter(log.read_text().split()).values())
    assert runs[:3] == [5, 5, 5]
    assert 5 < runs[3] <= 10
    gone = farm("run", *ON, "--retry", "--executor", "dask://127.0.0.1:9")
    assert (gone.exit_code, "no Dask scheduler at 127.0.0.1:9" in gone.output) == (125, True), gone.output


@contextmanager
def killed_once(chosen: Callable[[psutil.Process], bool], log: Path, *, when: int) -> Iterator[None]:
    """Kill a process below this one, once `log` has `when` entries."""

    def kill() -> None:
        while not log.exists() or len(log.read_text().split()) < when:
            time.sleep(0.05)
        os.kill(
            next(each.pid for each in psutil.Process().children(recursive=True) if _is(each, chosen)), signal.SIGKILL
        )

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    yield
    thread.join(timeout=10)
    assert not thread.is_alive()


def _is(process: psutil.Process, chosen: Callable[[psutil.Process], Any]) -> bool:
    try:
        return bool(chosen(process))
    except psutil.Error:
        return False
