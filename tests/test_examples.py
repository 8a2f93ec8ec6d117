"""The whole pipeline on examples: what examples/expected.toml promises is what `repro-kit collect` finds.

scripts/wheel_check runs two of them as a user does, in processes of their own and with all runs of the final check.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from compatibility.examples import EXAMPLES, EXPECTED, fails_on, of_the_tests, releases, worth_collecting

from collecting import told
from repro_kit.case.case import Case
from repro_kit.case.stage_results import ABLATION, CAPTURE, OBSERVATION
from repro_kit.failure.failure import Status

#: The reduction of a script is slow, and is followed to its end in tests/stages/minify/test_source_stage.py.
_FEWER_TRIES = {"dynamo_error.py": ["--budget", "5"]}


def test_every_example_is_expected_to_fail_in_some_way():
    assert {script.name for script in EXAMPLES.glob("*.py")} == set(EXPECTED)


def test_every_example_is_in_the_table():
    rows = [line.split(" | ") for line in (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines()]
    shown = {row[0].strip("| `"): row[3].strip("`") for row in rows if row[0].startswith("| `")}
    assert shown == {name: releases(name) or "all" for name in EXPECTED}


def test_a_release_that_an_example_names_is_told_from_the_others():
    assert of_the_tests() and fails_on("dynamic_shape_error.py", "2.13.0+cpu")
    assert fails_on("dynamo_error.py", "2.14.1") and not fails_on("dynamic_shape_error.py", "2.14.0.dev20260701")


def test_each_program_has_a_size_that_its_reduction_must_reach():
    programs = {name for name, expected in EXPECTED.items() if expected["level"] == "program"}
    assert programs == {name for name, expected in EXPECTED.items() if "most_statements" in expected}


def test_the_matrix_collects_what_the_tests_leave_out():
    assert {name for name in EXPECTED if fails_on(name, "2.13.0")} <= {*of_the_tests(), *worth_collecting("2.13.0")}
    assert "hang.py" not in of_the_tests()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("scripts_in_forks", "few_runs")
@pytest.mark.parametrize("name", of_the_tests())
def test_collect_finds_the_failure(name, tmp_path):
    expected = EXPECTED[name]
    result = _collect(name, tmp_path, [*expected.get("options", []), *_FEWER_TRIES.get(name, [])])
    found = {key: result[key] for key in ("layer", "failure", "level")}
    assert found == {key: expected[key] for key in found}, result
    assert result["verified"], result
    assert Path(result["bundle"]).is_file()
    if expected["level"] == "program":
        assert 1 <= result["statements"] <= expected["most_statements"]
    if expected["failure"] == "compile-error":
        _all_came_from_one_run(Case.open(tmp_path / "case.repro"), result["runs"])


def _all_came_from_one_run(case, runs):
    """The graph settles whose failure it is; backends are told apart on the reduced graph, not on the script.

    Of a script that fails by its own check, tests/pipeline/test_one_run.py shows the one more run.
    """
    observation, ablation = case.load(OBSERVATION), case.load(ABLATION)
    assert runs == ["observe: what fails?"]
    assert not case.load(CAPTURE).own_check
    assert observation.settled and observation.eager is None
    assert ablation.program == "reduced" and not any(cell.subject == "script" for cell in ablation.cells)
    assert any("on the graph, not on the script" in note for note in ablation.notes)
    confirmed = [cell for cell in ablation.cells if cell.changed.get("program") == "captured"]
    assert [cell.same for cell in confirmed] == [False, True]
    assert confirmed[0].verdict.status is Status.PASS


def _collect(name: str, place: Path, options: list[str]) -> dict[str, Any]:
    """The JSON that `collect` prints."""
    words = ["--include-source", "--python", sys.executable, "--output", str(place / "case.repro"), *options]
    result = told(place, "collect", *words, str(EXAMPLES / name))
    assert result["exit"] == 0, result
    return result
