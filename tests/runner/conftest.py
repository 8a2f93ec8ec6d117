import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro_kit.runner.zygote import ZygoteOracle


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZygoteOracle]:
    """One zygote for the tests of a module."""
    with ZygoteOracle(sys.executable, cache=tmp_path_factory.mktemp("cache")) as zygote:
        yield zygote


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    directory = tmp_path / "inputs"
    directory.mkdir()
    return directory
