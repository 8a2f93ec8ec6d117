import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro_kit.runner.compiler import probes
from repro_kit.runner.zygote import ZygoteOracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[ZygoteOracle]:
    """One zygote for the tests of a module."""
    with ZygoteOracle(sys.executable, cache=probes(sys.executable)) as zygote:
        yield zygote


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    directory = tmp_path / "inputs"
    directory.mkdir()
    return directory
