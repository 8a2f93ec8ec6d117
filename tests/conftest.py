"""For all tests: what repro-kit keeps for the user is kept for the run of the tests; the longest tests begin first."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

#: The same examples in each run of a continuous integration: a change is judged by what it changed. Elsewhere new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The examples take minutes each: at the end, all but one worker would wait for the last of them."""
    items.sort(key=lambda item: "test_examples" not in item.nodeid)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: garbage collections need not look at it."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def user_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all workers, so that what the compiler can do is found out once, and no configuration."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache-home"))
        patch.setenv("XDG_STATE_HOME", str(shared / "state-home"))
        patch.setenv("XDG_CONFIG_HOME", str(shared / "config-home"))
        yield
