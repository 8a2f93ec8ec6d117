"""A test of unittest is found in what unittest prints, and becomes a script that runs it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Subject
from repro_kit.script import CannotFold
from repro_kit.stages.minify.pytest_script import ChosenTest, failed_test, runs_unittest, script_of

FILE = """
import unittest

seen = []

def setUpModule():
    seen.append("module")

class Prepared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        seen.append(cls.__name__)

    def setUp(self):
        self.x = 2

    def test_shared(self):
        seen.append(self.x)
        self.assertGreater(seen.count(2), 1)

class First(Prepared):
    pass

class Second(Prepared):
    def test_raises(self):
        \"\"\"What it does.\"\"\"
        for part in (1, 2):
            with self.subTest(part=part):
                self.assertEqual(self.x, part + 1, f"part {part}")
        raise KeyError("the second")
"""


def printed(tmp_path: Path) -> str:
    (tmp_path / "checks.py").write_text(FILE)
    ran = subprocess.run(
        [sys.executable, "-m", "unittest", "checks"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    return ran.stderr


def test_the_test_that_raised_the_failure_is_chosen(tmp_path: Path) -> None:
    output, files = printed(tmp_path), {"checks": "/work/checks.py"}
    second = ChosenTest("/work/checks.py", ("Second", "test_raises"), None, of_pytest=False)
    assert failed_test(output, "'the second'", files) == second
    assert failed_test(output, "2 != 3 : part 2", files) == second
    assert failed_test(output, "1 not greater than 1", files).names[1] == "test_shared"
    assert failed_test(output, "what no test raised", files) == second, "errors are printed before failures"


def test_the_names_of_an_older_python_are_read() -> None:
    output = f"F\n{'=' * 70}\nFAIL: test_a (tests.checks.Case)\n{'-' * 70}\nTraceback …\n"
    found = failed_test(output, "", {"tests.checks": "/work/tests/checks.py"})
    assert (found.file, found.names) == ("/work/tests/checks.py", ("Case", "test_a"))


@pytest.mark.parametrize(("output", "reason"), [("OK", "no failed test"), (f"{'=' * 70}\nERROR: a (b.C)\n", "b.C")])
def test_what_is_not_known_is_named(output: str, reason: str) -> None:
    with pytest.raises(CannotFold, match=reason):
        failed_test(output, "", {})


def test_inherited_set_up_and_tests_are_part_of_the_script() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with pytest.raises(AssertionError, match="not greater than 1"):
        exec(script_of(FILE, ChosenTest("checks.py", ("First", "test_shared"), None, of_pytest=False)), namespace)
    assert namespace["seen"] == ["module", "First", 2]


def test_commands_of_unittest_are_known() -> None:
    def known(form: Any, *words: str) -> bool:
        return runs_unittest(Subject(form, words, "/work", "python"))

    assert known("command", "/usr/bin/python3", "-m", "unittest", "-v", "checks")
    assert known("module", "unittest", "discover")
    assert not known("module", "pytest", "checks.py") and not known("script", "unittest.py")
