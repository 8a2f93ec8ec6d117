"""The script of a test gets the values that pytest gives to the test of that name."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repro_kit.stages.minify.pytest_script import ChosenTest, script_of

FILE = """
import enum
import pytest
from pytest import fixture, mark, param

seen = []

class Color(enum.Enum):
    RED = 1

class Size:
    pass

def double(x):
    return 2 * x

SHAPES = [(2, 3), (4,)]
pytestmark = [pytest.mark.parametrize("whole", ["all"]), pytest.mark.usefixtures("switched")]

@pytest.fixture
def switched():
    seen.append("switched")

@pytest.fixture(params=[1, "b", (2,)])
def first(request):
    return request.param

@pytest.fixture(params=["u", "v"], ids=["U", "V"], scope="module")
def wide(request):
    yield [request.param]

@fixture(name="renamed")
def made(first, size):
    return (first, size)

@pytest.fixture
def sized(request, size):
    return (request.param, size)

@pytest.mark.parametrize("kind", [Color.RED, double, lambda: 1, "x y", 0.5, Size, [3], None, True])
@pytest.mark.parametrize(("a", "b"), [(1, [2]), param(3, (4,), id="three")])
def test_plain(kind, a, b, whole):
    seen.append(repr((kind if not callable(kind) else kind.__name__, a, b, whole)))

@mark.parametrize("size", range(2))
@mark.parametrize("shape", SHAPES)
class TestGroup:
    @mark.parametrize("by", ["x", "y"], ids=["long-x", "long-y"])
    def test_fixtures(self, renamed, wide, by, size, shape, whole):
        seen.append(repr((renamed, wide, by, size, shape, whole)))

@mark.parametrize("sized, size", [(2, 3), (5, 7)], indirect=["sized"])
def test_indirect(sized, size, whole, tmp_path, monkeypatch):
    monkeypatch.setenv("SIZE", str(size))
    (tmp_path / "a").touch()
    seen.append(repr((sized, size, whole)))
"""
RECORD = """
import json

def pytest_runtest_teardown(item):
    with open("seen.jsonl", "a") as file:
        file.write(json.dumps([item.nodeid, item.module.seen]) + chr(10))
    item.module.seen.clear()
"""


def test_every_name_of_pytest_stands_for_the_values_that_pytest_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIZE", "")  # the scripts run in this process
    (tmp_path / "test_it.py").write_text(FILE)
    (tmp_path / "conftest.py").write_text(RECORD)
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path, check=True)
    by_pytest = dict(map(json.loads, (tmp_path / "seen.jsonl").read_text().splitlines()))
    assert len(by_pytest) == 18 + 48 + 2
    for node, seen in by_pytest.items():
        name, _, brackets = node.removesuffix("]").partition("[")
        test = ChosenTest("test_it.py", tuple(name.split("::")[1:]), brackets)
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(script_of(FILE, test), namespace)
        assert namespace["seen"] == seen, node
