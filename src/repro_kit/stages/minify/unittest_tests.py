"""The test that a command of `unittest` runs, from what unittest prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from repro_kit.case.case import Subject
from repro_kit.source import CannotFold
from repro_kit.stages.minify.pytest_script import ChosenTest

_NAME = "unittest"
_BETWEEN = "=" * 70 + "\n"  # before each failed test
#: ``FAIL: test_a (package.module.Class.test_a)``; before Python 3.11 without the second ``test_a``.
_FAILED_UNITTEST = re.compile(r"(?:FAIL|ERROR): (\w+) \(([\w.]+)\)")


def runs_unittest(subject: Subject) -> bool:
    """Whether the command is ``python -m unittest …``."""
    words = list(subject.argv)
    if subject.form == "command":
        return PurePath(words[0]).name.startswith("python") and words[1:3] == ["-m", _NAME]
    return subject.form == "module" and words[:1] == [_NAME]


def failed_test(output: str, message: str, files: Mapping[str, str]) -> ChosenTest:
    """The first test that failed in the `output` of unittest; preferably one that raised an exception with `message`.

    `files`: the files of the user's modules by name. Raises CannotFold.
    """
    sections = [
        (found, section) for section in output.split(_BETWEEN)[1:] if (found := _FAILED_UNITTEST.match(section))
    ]
    if not sections:
        raise CannotFold("unittest reports no failed test")
    first_line = message.partition("\n")[0]
    found, _ = min(sections, key=lambda entry: first_line not in entry[1])
    name, qualified = found.groups()
    module, _, cls = qualified.removesuffix(f".{name}").rpartition(".")
    if module not in files:
        raise CannotFold(f"the file of the test {qualified} is not known")
    return ChosenTest(files[module], (cls, name), None, of_pytest=False)
