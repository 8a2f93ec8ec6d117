"""For all tests: what repro-kit keeps for the user is kept for the run of the tests; the longest tests begin first.

At the end, the CPU seconds of each folder of tests are shown, so that it is seen which of them have grown.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator

import psutil
import pytest
from hypothesis import settings

from repro_kit.repro_run import running
from repro_kit.runner.compiler import probes
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.session.oracles import shared_oracles
from subjects_in_forks import subjects_in_forks

#: The same examples in each run of a continuous integration: a change is judged by what it changed. Elsewhere new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

_SHOWN = 30.0  # CPU seconds in all from which they are shown
_CPU = "cpu_seconds"
_cpu_times = psutil.Process.cpu_times  # tests replace it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The examples take minutes each: at the end, all but one worker would wait for the last of them."""
    items.sort(key=lambda item: "test_examples" not in item.nodeid)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: garbage collections need not look at it."""
    gc.freeze()


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
    """All cases that this worker works on in its own process share one zygote."""
    with shared_oracles():
        yield


@pytest.fixture
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of repro.py shows the failure: how many it takes is tested in tests/stages/bundle/test_final_check.py."""
    monkeypatch.setattr(running, "RUNS_BEFORE_DETERMINISTIC", 1)


class CpuSeconds:
    """Attaches to each report the CPU seconds of this worker and its descendants since the report before."""

    def __init__(self) -> None:
        self.last = _cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _cpu_seconds()
        report.user_properties.append((_CPU, max(0.0, now - self.last)))  # a child that nobody waits for takes its time
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
    me = psutil.Process()
    total = sum(_cpu_times(me)[:4])
    for process in me.children(recursive=True):
        try:
            total += sum(_cpu_times(process)[:4])
        except psutil.Error:
            continue
    return total
