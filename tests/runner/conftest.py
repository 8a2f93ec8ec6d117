import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro_kit.runner.compiler import probes
from repro_kit.runner.program_oracle import ProgramOracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[ProgramOracle]:
    """One zygote for the tests of a module."""
    with ProgramOracle(sys.executable, cache=probes(sys.executable)) as zygote:
        yield zygote


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    directory = tmp_path / "inputs"
    directory.mkdir()
    return directory
