"""What `explain` found is told of the script that it was found in, and of no other."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.commands.explain.explain_trace import Tried, explain, source_of_case
from repro_kit.explain.extra_run import MeasuredRun
from repro_kit.options.stages import ObserveOptions
from repro_kit.pipeline.run import REGISTRY, settings_of
from repro_kit.session.explained import explained_before
from repro_kit.ui import SilentUi
from root import ROOT

TRACES = ROOT / "tests/trace/fixtures" / "insights"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    (tmp_path / "a.py").write_text("one")
    made = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), sys.executable), "2026-01-01")
    traced(made, "four_sizes_static")
    return made


def traced(case: Case, name: str) -> None:
    """A run of the script as it is now left this trace."""
    place = case.path / "explain" / "run"
    (place / "trace").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(TRACES / f"{name}.log", place / "trace" / "a.log")
    (place / "settings.txt").write_text(settings_of(REGISTRY["observe"], case, ObserveOptions()))


def told(case: Case, *, as_it_is: bool = False):
    return explain(source_of_case(case, ObserveOptions(), SilentUi(), as_it_is=as_it_is), case.path.parent)


def test_an_edited_script_is_another_one(case: Case, tmp_path: Path) -> None:
    assert explained_before(case) is None
    found = told(case)
    assert explained_before(case) == found
    (tmp_path / "a.py").write_text("two")
    assert explained_before(case) is None
    told(case, as_it_is=True)  # the old trace tells nothing of the new script
    assert explained_before(case) is None


def test_a_trial_belongs_to_its_trace(case: Case, tmp_path: Path) -> None:
    tried = Tried(MeasuredRun("exit status 0"), MeasuredRun("exit status 0"), ())
    case.write("insights.json", replace(told(case), tried=tried))
    assert told(case).tried == tried
    (tmp_path / "a.py").write_text("two")
    traced(case, "four_sizes_dynamic")
    assert told(case).tried is None


def test_what_another_version_wrote_is_left_alone(case: Case) -> None:
    (case.path / "insights.json").write_text('{"subject": 1}')
    assert explained_before(case) is None
    assert told(case) == explained_before(case)
