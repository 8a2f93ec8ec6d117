"""For all tests: what repro-kit keeps for the user is kept for the run of the tests; slow tests begin first.

At the end, the CPU seconds of each folder of tests are shown, so that it is seen which of them have grown.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from forking_python import forking_python
from repro_kit.repro_run import running
from repro_kit.runner.compiler import probes
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.supervised import Run
from repro_kit.runner.supervised import launch as launched
from repro_kit.runner.supervisor import descendants
from repro_kit.session.oracles import shared_oracles
from repro_kit.subject import users_environment
from subjects_in_forks import AskedOnce, subjects_in_forks

#: The same examples in each run of a continuous integration: a change is judged by what it changed. Elsewhere new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

_SHOWN = 30.0  # CPU seconds in all from which they are shown
_CPU = "cpu_seconds"
_cpu_times = psutil.Process.cpu_times  # tests replace it


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker begins with slow modules, and ends with quick ones.

    xdist gives each worker an equal part of the list, and lets an idle worker take from the end of another's part:
    were slow tests there, all workers but one would wait for the last of them. A module stays together.
    """
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    modules: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        modules[item.path].append(item)
    slow = {path: sum(item.get_closest_marker("slow") is not None for item in of_it) for path, of_it in modules.items()}
    first = sorted(filter(slow.get, slow), key=lambda path: -slow[path])
    quick = [item for path, of_it in modules.items() if not slow[path] for item in of_it]
    ordered: list[pytest.Item] = []
    for number in range(workers):
        part = [item for path in first[number::workers] for item in modules[path]]
        room = max(0, (len(items) - len(ordered)) // (workers - number) - len(part))
        ordered += part + quick[:room]
        del quick[:room]
    items[:] = ordered + quick


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: garbage collections need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def user_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all workers, so that what the compiler can do is found out once, and no configuration.

    Torch is stricter where CI is set (torch/_library/custom_ops.py), and so are no users' machines.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CI", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache-home"))
        patch.setenv("XDG_STATE_HOME", str(shared / "state-home"))
        patch.setenv("XDG_CONFIG_HOME", str(shared / "config-home"))
        yield


@pytest.fixture(scope="session")
def oracle(user_directories: None) -> Iterator[ProgramOracle]:
    """One zygote for all tests of a worker."""
    with ProgramOracle(sys.executable, cache=probes(sys.executable)) as zygote:
        yield zygote


@pytest.fixture
def scripts_in_forks(one_zygote: None, oracle: ProgramOracle) -> Iterator[None]:
    """The user's scripts run in forks of a process that has imported torch."""
    with subjects_in_forks(oracle):
        yield


@pytest.fixture(scope="session")
def one_zygote(user_directories: None) -> Iterator[None]:
    """All cases that this worker works on in its own process share one zygote, and what it says of its environment."""
    with shared_oracles(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(users_environment, "Probe", AskedOnce)
        yield


@pytest.fixture(scope="session")
def python_in_forks(user_directories: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An interpreter whose processes are forks of one that has torch; one for all tests of a worker."""
    cache = probes(sys.executable) or tmp_path_factory.mktemp("probes")
    with forking_python(cache) as python:
        yield python


@pytest.fixture
def repros_in_forks(python_in_forks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `repro.py` runs in forks of an interpreter that has torch.

    How a `repro.py` is started is tested in tests/repro_run and tests/stages/bundle/test_final_check.py.
    """

    def launch(argv: Sequence[str], **of_start: Any) -> Run:
        return launched([str(python_in_forks) if argv[0] == sys.executable else argv[0], *argv[1:]], **of_start)

    monkeypatch.setattr(running, "launch", launch)


@pytest.fixture
def few_runs(repros_in_forks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of repro.py, in a fork, shows the failure; tests/stages/bundle/test_final_check.py has more of them."""
    monkeypatch.setattr(running, "RUNS_BEFORE_DETERMINISTIC", 1)


class CpuSeconds:
    """Attaches to the last report of each test the CPU seconds of this worker and its descendants since the one before.

    The first test has those of the collection, too.
    """

    def __init__(self) -> None:
        self.last = _cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            now = _cpu_seconds()
            spent = max(0.0, now - self.last)  # a child that nobody waits for takes its time
            report.user_properties.append((_CPU, spent))
            self.last = now
        return report


class CpuSecondsShown:
    """Adds the CPU seconds of all reports up by folder, and shows them at the end."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = "/".join(report.nodeid.partition("::")[0].split("/")[1:-1][:2]) or "(top)"
        spent = sum(value for name, value in report.user_properties if name == _CPU)
        self.seconds[f"{folder}, slow" if "slow" in report.keywords else folder] += spent

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        total = sum(self.seconds.values())
        if total < _SHOWN:
            return
        terminalreporter.section(f"{total:.0f} CPU seconds")
        for folder, seconds in self.seconds.most_common():
            if seconds >= 1:
                terminalreporter.write_line(f"{seconds:7.0f}  {folder}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(CpuSecondsShown())
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(CpuSeconds())


def _cpu_seconds() -> float:
    """CPU seconds of this process, its living descendants, and all that these have waited for."""
    total = sum(os.times()[:4])
    for pid in descendants():
        with contextlib.suppress(psutil.Error):
            total += sum(_cpu_times(psutil.Process(pid))[:4])
    return total
