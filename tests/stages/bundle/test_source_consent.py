"""The user's own source files go into a bundle only after a yes to that question, or with `--include-source`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from private_values import bundle_of, small_case
from repro_kit.case.case import Case
from repro_kit.case.handles import BUNDLE, OBSERVATION
from repro_kit.model.failure.failure import ExceptionLink, Failure, Frame, Kind
from repro_kit.session.options import BundleOptions
from repro_kit.session.strangers.untrusted import opened
from repro_kit.ui import SilentUi, Ui

SOURCE = "\n".join([*(f"x{at} = {at}" for at in range(20)), "import walnut", "raise SystemExit('kumquat')", "y = 1\n"])


class Asked(SilentUi):
    """A terminal on which somebody answers `answer`."""

    def __init__(self, answer: bool = True, **how: Any) -> None:
        super().__init__(**{name: value for name, value in how.items() if name == "yes"})
        self.json = how.get("json", False)
        self.answer, self.shown, self.questions = answer, "", 0

    can_ask = True

    def print(self, text: str) -> None:
        """Keep what was shown."""
        self.shown += text

    def confirm(self, question: str, *, insist: bool = False) -> bool:
        """Answer, where there was a list before."""
        assert "train.py (23 lines)" in self.shown and "walnut.py (1 lines)" in self.shown
        self.questions += 1
        return self.answer


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


@pytest.mark.parametrize(
    "ui",
    [SilentUi(yes=True), Ui(quiet=True), Asked(False), Asked(yes=True), Asked(json=True)],
    ids=["silent with --yes", "no terminal", "no", "--yes", "--json"],
)
def test_without_a_yes_the_bundle_says_what_it_lacks(case: Case, ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert any("files/walnut.py (1 lines)" in note for note in ui.notes)
    with opened(case.path) as here:  # the case has what was checked, for `verify` and `bisect`
        assert (here.directory / "files/train.py").read_text() == SOURCE


@pytest.mark.parametrize("ui", [SilentUi(), Asked()], ids=["--include-source", "yes"])
def test_with_a_yes_the_files_go_in_and_into_the_issue(case: Case, ui: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("private_values.SilentUi", lambda: ui)
    files = bundle_of(case, {}, BundleOptions(include_source=not isinstance(ui, Asked)))
    assert files["files/train.py"] == SOURCE and "files/walnut.py" in files
    assert json.loads(files["manifest.json"])["verified"] and case.load(BUNDLE).verified
    assert SOURCE.rstrip() in files["issue.md"] and files["files/walnut.py"].rstrip() in files["issue.md"]
    assert "Your source files are in it: files/train.py (23 lines), files/walnut.py (1 lines)." in ui.notes
    assert not case.has("checked/repro.py") and (not isinstance(ui, Asked) or ui.questions == 1)


def test_a_later_yes_removes_what_the_case_kept(case: Case) -> None:
    bundle_of(case, {}, BundleOptions())
    assert (case.path / "checked/files/train.py").is_file() and "files" not in {it.name for it in case.path.iterdir()}
    bundle_of(case, {}, BundleOptions(include_source=True))
    assert not (case.path / "checked").exists()
