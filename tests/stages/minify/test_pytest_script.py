"""A test of pytest becomes a script that runs it."""

from typing import Any

import pytest

from repro_kit.case.case import Subject
from repro_kit.source import CannotFold
from repro_kit.stages.minify.pytest_script import ChosenTest, script_of

FILE = """
import pytest

seen = []

@pytest.fixture
def width():
    return 3

@pytest.fixture(scope="module")
def model(width):
    yield width * 2

@pytest.mark.parametrize("name, scale", [("a", 1), ("b", 2.5)])
def test_scaled(model, name, scale):
    seen.append((model, name, scale))

class TestGroup:
    @pytest.fixture
    def own(self, width):
        return width + 1

    def test_inner(self, own, extra=4):
        seen.append((own, extra))

def test_disk(tmp_path):
    pass

class TestPrepared:
    def setup_method(self):
        pass

    def test_it(self):
        pass
"""


def chosen(*words: str, form: Any = "command") -> ChosenTest | None:
    return ChosenTest.of(Subject(form, words, "/work", "python"))


def run(node: str) -> list[Any]:
    test = chosen("pytest", "-q", node)
    assert test is not None
    namespace: dict[str, Any] = {}
    exec(script_of(FILE, test), namespace)
    seen: list[Any] = namespace["seen"]
    return seen


def test_fixtures_and_parameters_get_their_values() -> None:
    assert run("t.py::test_scaled[b-2.5]") == [(6, "b", 2.5)]
    assert run("t.py::TestGroup::test_inner") == [(4, 4)]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("t.py::test_scaled", "parameters of the test are not known"),
        ("t.py::test_scaled[c-1]", "parameters of the test are not known"),
        ("t.py::test_disk", "fixture tmp_path"),
        ("t.py::TestPrepared::test_it", "TestPrepared of the test prepares"),
        ("t.py::test_absent", "no test_absent"),
    ],
)
def test_what_cannot_be_a_script_is_named(node: str, reason: str) -> None:
    with pytest.raises(CannotFold, match=reason):
        run(node)


def test_commands_of_pytest_are_known() -> None:
    test = ChosenTest("tests/t.py", ("test_a",), None)
    assert chosen("python3", "-m", "pytest", "tests/t.py::test_a") == test
    assert chosen("pytest", "-x", "tests/t.py::test_a", form="module") == test
    assert chosen("train.py", form="script") is None
    assert chosen("torchrun", "train.py") is None
    with pytest.raises(CannotFold, match="one test only"):
        chosen("pytest", "tests")
