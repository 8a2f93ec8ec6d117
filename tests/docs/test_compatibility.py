"""The page about versions of torch says what scripts/matrix saw."""

from __future__ import annotations

import re
import sys

import pytest
from compatibility import cells
from compatibility.environment import Environment
from compatibility.examples import EXPECTED, fails_on, worth_collecting
from compatibility.page import PAGE, page, read_results

from root import ROOT

README = ROOT / "README.md"


def test_the_page_is_that_of_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read_results())


def test_an_example_fails_on_every_version() -> None:
    results = read_results()
    failing = {
        version: [cells["result"] for cells in result["examples"].values()] for version, result in results.items()
    }
    assert [version for version, seen in failing.items() if "fails" not in seen] == []
    assert {name for result in results.values() for name in result["examples"]} <= set(EXPECTED)


def test_an_example_fails_with_the_versions_that_it_names_and_with_no_other() -> None:
    told = {
        (version, name): (fails_on(name, version), cells["result"] == "fails")
        for version, result in read_results().items()
        for name, cells in result["examples"].items()
    }
    assert [key for key, (said, seen) in told.items() if said != seen] == []


def test_the_readme_names_the_versions_that_were_tried() -> None:
    (tried,) = re.findall(
        r"It is developed on torch (.*?) \(\[Compatibility\]", README.read_text(encoding="utf-8"), re.S
    )
    assert set(re.findall(r"\d+\.\d+\.\d+", tried)) == set(read_results())


@pytest.mark.parametrize(
    ("code", "expected", "result"),
    [
        ("pass", {"shows": "boom"}, "passes"),
        ("raise ValueError('boom')", {"shows": "boom"}, "fails"),
        ("raise ValueError('bang')", {"shows": "boom"}, "fails otherwise: ValueError: bang"),
        ("while True: pass", {"plain_seconds": 0.5}, "fails"),
        ("while True: pass", {"plain_seconds": 0.5, "shows": "boom"}, "does not end"),
    ],
)
def test_a_plain_run_fails_when_it_shows_what_it_must(code, expected, result, tmp_path, monkeypatch) -> None:
    (tmp_path / "script.py").write_text(code)
    monkeypatch.setattr(cells, "EXAMPLES", tmp_path)
    monkeypatch.setitem(cells.EXPECTED, "script.py", expected)
    assert cells.plain_result("script.py", Environment(sys.executable, "2", "3", tests=False)) == result


def test_the_matrix_collects_what_the_tests_cannot(monkeypatch) -> None:
    monkeypatch.setitem(cells.EXPECTED, "old.py", {"fails_on": "<2.12"})
    assert "old.py" in worth_collecting("2.10.0")
    assert "old.py" not in worth_collecting("2.15.0")
    assert "dynamo_error.py" not in worth_collecting("2.10.0")


def test_the_worst_cell_of_a_command_is_shown_with_its_reason() -> None:
    examples = {
        "a.py": {"result": "fails", "observe": "✓", "ablate": "✓"},
        "b.py": {"result": "fails", "observe": "✗ it is late"},
    }
    lacks = ["torch._inductor.compiler_bisector:CompilerBisector"]
    text = page(
        {
            "9.8.7": {
                "torch": "9.8.7+cpu",
                "python": "3.12.1",
                "tests": "✓ 3 passed",
                "lacks": lacks,
                "examples": examples,
            }
        }
    )
    assert "| `observe` | ✗ |" in text
    assert "| `ablate` | ◐ |" in text
    assert "| `verify` | — |" in text
    assert "- 9.8.7, `observe` ✗ `b.py`: it is late" in text
    assert "- 9.8.7, `ablate` ◐ the layer is named" in text
