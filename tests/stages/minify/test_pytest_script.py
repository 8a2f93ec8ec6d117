"""A test of pytest becomes a script that runs it."""

from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Subject
from repro_kit.script import CannotFold
from repro_kit.stages.minify.pytest_script import ChosenTest, script_of

FILE = """
import pytest
import unittest

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

def test_output(capsys):
    pass

class TestPrepared:
    @classmethod
    def setup_class(cls):
        seen.append(cls.__name__)

    def setup_method(self, method):
        self.name = method.__name__

    def test_it(self, width):
        seen.append((self.name, width))

class TestOfUnittest(unittest.TestCase):
    def setUp(self):
        self.x = 2

    def test_it(self):
        self.assertEqual(self.x, 2)
        seen.append(self.id())

if __name__ == "__main__":
    seen.append("as a script")
"""


def chosen(*words: str, form: Any = "command") -> ChosenTest | None:
    return ChosenTest.of(Subject(form, words, "/work", "python"))


def run(node: str) -> list[Any]:
    test = chosen("pytest", "-q", node)
    assert test is not None
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(script_of(FILE, test), namespace)
    seen: list[Any] = namespace["seen"]
    return seen


def test_fixtures_and_parameters_get_their_values() -> None:
    assert run("t.py::test_scaled[b-2.5]") == [(6, "b", 2.5)]
    assert run("t.py::TestGroup::test_inner") == [(4, 4)]


def test_an_instance_of_the_class_is_prepared_as_pytest_and_unittest_do() -> None:
    assert run("t.py::TestPrepared::test_it") == ["TestPrepared", ("test_it", 3)]
    assert [name.rpartition("TestOf")[2] for name in run("t.py::TestOfUnittest::test_it")] == ["Unittest.test_it"]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("t.py::test_scaled", "parameters of the test are not known"),
        ("t.py::test_scaled[c-1]", "parameters of the test are not known"),
        ("t.py::test_output", "fixture capsys"),
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


CONFTEST = """
from __future__ import annotations
import contextlib, pytest

entered = []

@contextlib.contextmanager
def switched_on():
    entered.append("on")
    yield
    entered.remove("on")

@pytest.fixture(autouse=True)
def switch():
    with switched_on():
        yield

@pytest.fixture
def base(switch):
    return 3
"""
USES_CONFTEST = """
from __future__ import annotations
import pytest

seen = []

@pytest.fixture
def twice(base):
    yield base * 2
    seen.append("too early")

@pytest.mark.parametrize("factor", [1, 10])
def test_all(twice, base, factor):
    seen.append((list(entered), twice * factor + base))
"""


def test_fixtures_of_conftest_are_used_and_stay_open_while_the_test_runs() -> None:
    namespace: dict[str, Any] = {}
    exec(script_of(USES_CONFTEST, ChosenTest("t.py", ("test_all",), "10"), [CONFTEST]), namespace)
    assert namespace["seen"] == [(["on"], 63)]


def test_conftests_lie_beside_the_test_and_above(tmp_path: Path) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for place in ("conftest.py", "tests/unit/conftest.py"):
        (tmp_path / place).touch()
    found = ChosenTest("tests/unit/t.py", ("test_a",), None).conftests(tmp_path)
    assert found == (tmp_path / "conftest.py", tmp_path / "tests" / "unit" / "conftest.py")


OUTPUT = """
=========================== short test summary info ============================
FAILED tests/t.py::test_a[True-x] - AssertionError: 1 - 2
SUBFAILED[the first](x=1, y='a b') tests/t.py::TestB::test_d - AssertionError
FAILED tests/t.py::TestB::test_c
1 passed, 2 failed in 3.1s
"""


@pytest.mark.parametrize(
    ("words", "names", "parameters"),
    [
        (["tests"], ("test_a",), "True-x"),
        (["t.py::test_a"], ("test_a",), "True-x"),
        (["t.py::TestB::test_c"], ("TestB", "test_c"), None),
        (["t.py::TestB::test_d"], ("TestB", "test_d"), None),
        (["t.py::test_a", "t.py::TestB"], ("test_a",), "True-x"),
    ],
)
def test_the_first_test_that_failed_is_chosen(
    tmp_path: Path, words: list[str], names: tuple[str, ...], parameters: str | None
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.py").touch()
    subject = Subject("command", ("pytest", *words), str(tmp_path / "tests"), "python")  # pytest names files from above
    test = ChosenTest.of(subject, OUTPUT)
    assert test is not None and test.node in [node.removeprefix("tests/") for node in OUTPUT.split()]
    assert test == ChosenTest(str(tmp_path / "tests" / "t.py"), names, parameters)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("ValueError: the second kind of failure", "test_b"),
        ("torch._dynamo.exc.Unsupported: Call to print", "test_c"),
        ("KeyError: absent", "test_a"),
        ("", "test_a"),
    ],
)
def test_a_test_with_the_chosen_failure_comes_first(error: str, name: str) -> None:
    lines = [
        "t.py::test_a - ValueError: one",
        "t.py::test_b - ValueError: the second ...",
        "t.py::test_c - Unsupported: Call",
    ]
    test = ChosenTest.of(
        Subject("command", ("pytest",), "/work", "python"), "\n".join(f"FAILED {line}" for line in lines), error
    )
    assert test is not None and test.names == (name,)
