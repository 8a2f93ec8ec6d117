"""``pytest --repro-kit``: save a case for each test that fails in the compiler. Imports only pytest and the probe."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_KEPT: pytest.StashKey[list[str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("repro-kit")
    group.addoption(
        "--repro-kit", action="store_true", dest="repro_kit", help="Save a case of each failure of torch.compile."
    )
    group.addoption(
        "--repro-kit-dir", metavar="DIR", dest="repro_kit_dir", default=".", help="Directory for the cases.  [.]"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch the tests when the option is given."""
    if config.getoption("repro_kit"):
        config.stash[_KEPT] = []
        config.pluginmanager.register(_Watcher(config), "repro-kit-watcher")


class _Watcher:
    """Watches the call of every test."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.directory = Path(config.invocation_params.dir, config.getoption("repro_kit_dir"))

    @pytest.hookimpl(hookwrapper=True, trylast=True)  # within pytest's own, which has begun to capture logs
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Save a case when the test's failure comes from the compiler."""
        from repro_kit.watching import watch

        _leave_out_of_captured_logs("torch.__trace")
        watching = watch(self.directory / f"{_file_name(item.nodeid)}.repro")
        watching.__enter__()
        outcome: Any = yield
        watching.__exit__(*(outcome.excinfo or (None, None, None)))
        if watching.saved:
            self.config.stash[_KEPT].append(watching.saved)
            item.add_report_section("call", "repro-kit", f"Kept in {watching.saved}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the commands for the saved cases."""
        if self.config.stash[_KEPT]:
            terminalreporter.section("repro-kit")
            for case_directory in self.config.stash[_KEPT]:
                terminalreporter.write_line(f"repro-kit collect {shlex.quote(str(case_directory))}")


def _leave_out_of_captured_logs(name: str) -> None:
    """Take pytest's handlers off the logger: torch's trace is for programs, and would fill the report of each test."""
    logger = logging.getLogger(name)
    for handler in tuple(logger.handlers):
        if type(handler).__module__.startswith("_pytest."):
            logger.removeHandler(handler)


def _file_name(nodeid: str) -> str:
    """A test's id as a file name: ``test_x-test_y-a-b`` for ``tests/test_x.py::test_y[a/b]``."""
    path, _, rest = nodeid.partition("::")
    return re.sub(r"[^\w.]+", "-", f"{Path(path).stem}-{rest}").strip("-")[:100]
