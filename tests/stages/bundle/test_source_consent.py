"""The user's own source files go into a bundle only with `--include-source`; nobody is asked."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from private_values import bundle_of, small_case
from repro_kit.case.case import Case
from repro_kit.case.stage_results import BUNDLE, OBSERVATION
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.options.stages import BundleOptions
from repro_kit.repro_run.untrusted import opened
from repro_kit.ui import SilentUi

SOURCE = "\n".join([*(f"x{at} = {at}" for at in range(20)), "import walnut", "raise SystemExit('kumquat')", "y = 1\n"])


class Terminal(SilentUi):
    """A terminal at which nobody waits for a question."""

    can_ask = True

    def confirm(self, question: str, *, insist: bool = False) -> bool:
        """No question comes after minutes of work."""
        raise AssertionError(question)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A script that fails at line 22, with a module; no graph was captured."""
    made = small_case(tmp_path)
    place = Path(made.file.subject.cwd)
    (place / "train.py").write_text(SOURCE)
    (place / "walnut.py").write_text('"""Doc of walnut."""\n')
    failure = Failure(
        Kind.COMPILE_ERROR,
        exceptions=(ExceptionLink("BackendFailed", "cannot load", (Frame(str(place / "train.py"), 22, "<module>"),)),),
    )
    observation = made.load(OBSERVATION)
    observed = (replace(observation.failures[0], failure=failure),)
    made.write("observe/run.json", replace(observation, failures=observed))
    return made


@pytest.mark.parametrize("ui", [Terminal(), SilentUi(yes=True)], ids=["terminal", "--yes"])
def test_without_the_option_the_bundle_says_what_it_lacks(
    case: Case, ui: SilentUi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("private_values.SilentUi", lambda: ui)
    files = bundle_of(case, {}, BundleOptions())
    assert not any(name.startswith("files/") for name in files)
    assert not any("x17" in text or "kumquat" in text or "walnut" in text for text in files.values())
    for name in ("README.md", "issue.md", "story.json", "report.html"):
        assert "source files train.py and 1 more" in files[name], name
    assert "--include-source" in files["README.md"] and "NOT VERIFIED" in files["README.md"]
    manifest = json.loads(files["manifest.json"])
    assert not manifest["verified"] and manifest["needs"] == ["the source files train.py and 1 more"]
    assert "with them, on this machine, it failed as expected in 1 of 1 runs" in manifest["reason"]
    assert not case.load(BUNDLE).verified
    kept_back = "Your source files are not in it: files/train.py (23 lines), files/walnut.py (1 line)."
    assert f"{kept_back} `repro-kit bundle --include-source {case.path}` adds them." in ui.notes
    with opened(case.path) as here:  # the case has what was checked, for `verify` and `bisect`
        assert (here.directory / "files/train.py").read_text() == SOURCE


def test_with_the_option_the_files_go_in_and_not_into_the_issue(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    ui = Terminal()
    monkeypatch.setattr("private_values.SilentUi", lambda: ui)
    files = bundle_of(case, {}, BundleOptions(include_source=True))
    assert files["files/train.py"] == SOURCE and "files/walnut.py" in files
    assert json.loads(files["manifest.json"])["verified"] and case.load(BUNDLE).verified
    assert SOURCE.rstrip() not in files["issue.md"] and "kumquat" in files["issue.md"]  # the failing line
    assert "Your source files are in it: files/train.py (23 lines), files/walnut.py (1 line)." in ui.notes
    assert not case.has("checked/repro.py")


def test_a_later_bundle_with_them_removes_what_the_case_kept(case: Case) -> None:
    bundle_of(case, {}, BundleOptions())
    assert (case.path / "checked/files/train.py").is_file() and "files" not in {it.name for it in case.path.iterdir()}
    bundle_of(case, {}, BundleOptions(include_source=True))
    assert not (case.path / "checked").exists()
