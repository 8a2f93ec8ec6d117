"""Whose case it is: one's own goes on without a question, any other runs nothing without a yes."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.case.case import Case, Subject
from repro_kit.cli.main import cli
from repro_kit.commands.bisect.subject import build_subject
from repro_kit.errors import ReproKitError
from repro_kit.regressions.build import Build
from repro_kit.regressions.search_state import BisectState, read_own_state, write_state
from repro_kit.repro_run.trust import agree, agree_to_trace
from repro_kit.ui import SilentUi


@pytest.fixture
def case(tmp_path: Path) -> Case:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ntouch {tmp_path / "ran"}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    subject = Subject("script", ("train.py", "\x1b[2J"), str(tmp_path), str(python))
    return Case.create(tmp_path / "a.repro", subject, "2030-01-01T00:00:00+00:00")


def copy_of(case: Case) -> Path:
    return Path(shutil.copytree(case.path, case.path.with_name("b.repro")))


def test_ones_own_case_is_known_wherever_it_is_moved(case: Case) -> None:
    assert case.is_own
    moved = case.path.rename(case.path.with_name("moved.repro"))
    assert Case.open(moved).is_own
    agree(Case.open(moved), SilentUi())


def test_a_copy_a_change_and_one_without_a_mark_are_from_elsewhere(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Case.open(copy_of(case)).is_own
    text = (case.path / "case.toml").read_text()
    (case.path / "case.toml").write_text(text.replace("train.py", "other.py"))
    assert not Case.open(case.path).is_own
    (case.path / "case.toml").write_text(text)
    assert Case.open(case.path).is_own
    monkeypatch.setenv("XDG_STATE_HOME", str(case.path.parent / "of-another-user"))
    assert not Case.open(case.path).is_own
    (case.path / ".owner").unlink()
    assert not Case.open(case.path).is_own


def test_a_key_that_others_can_read_counts_for_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    place = case.path.parent / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(place))
    case.accept()
    assert case.is_own
    (place / "repro-kit" / "key").chmod(0o644)
    assert not case.is_own


def test_a_yes_is_noted(case: Case) -> None:
    path = copy_of(case)
    with pytest.raises(ReproKitError, match=r"not made by you on this machine, and would run `.*python train.py"):
        agree(Case.open(path), SilentUi())
    agree(Case.open(path), SilentUi(yes=True))
    agree(Case.open(path), SilentUi())


@pytest.mark.parametrize("command", ["collect", "observe", "capture", "ablate", "minify", "bundle", "explain --try"])
def test_no_command_starts_the_interpreter_of_a_strangers_case(case: Case, command: str) -> None:
    result = CliRunner().invoke(cli, [*command.split(), str(copy_of(case))], prog_name="repro-kit")
    assert result.exit_code == 2 and "give --yes if you trust it" in result.output, result.output
    assert "\x1b" not in result.output and not (case.path.parent / "ran").exists()


def test_nor_does_a_bisection(case: Case) -> None:
    path = copy_of(case)
    with (
        pytest.raises(ReproKitError, match="give --yes"),
        build_subject([str(path)], is_command=False, timeout=1.0, ui=SilentUi()),
    ):
        pass
    (path / "bundle").mkdir()
    (path / "bundle" / "repro.py").write_text("x = 1\n")
    with build_subject([str(path)], is_command=False, timeout=1.0, ui=SilentUi(yes=True)) as subject:
        assert (
            subject.python is None
            and subject.untrusted
            and not subject.state_directory.is_relative_to(path.parent / "b.repro")
        )


def test_a_case_is_shown_without_a_question(case: Case) -> None:
    result = CliRunner().invoke(cli, ["show", str(copy_of(case))], prog_name="repro-kit")
    assert result.exit_code == 2 and "observe/run.json is missing" in result.output


def test_the_log_of_a_bisection_runs_nothing_and_is_no_consent(case: Case) -> None:
    path = copy_of(case)
    with build_subject([str(path)], is_command=False, timeout=1.0, ui=None) as subject:
        assert subject.state_directory == path / "bisect"
    assert not Case.open(path).is_own
    assert "[bisect" not in CliRunner().invoke(cli, ["bisect", "--log", str(path)]).output
    assert not Case.open(path).is_own


def test_the_graph_of_a_trace_runs_only_after_a_yes(tmp_path: Path) -> None:
    trace = tmp_path / "trace.log"
    trace.write_text("")
    with pytest.raises(ReproKitError, match=r"holds the code of a graph, which would run with your rights"):
        agree_to_trace(trace, SilentUi())
    agree_to_trace(trace, SilentUi(yes=True))


def test_builds_that_somebody_else_chose_are_not_installed(tmp_path: Path) -> None:
    build = Build("2.12.0", url="https://example.com/torch-2.12.0-py3-none-any.whl")
    state = BisectState(1, "repro.py; torch", (build,), "torch", "releases", "repro.py")
    write_state(tmp_path, state)
    assert read_own_state(tmp_path) == state
    write_state(tmp_path, replace(state, patience=3))  # a judgement, say
    assert read_own_state(tmp_path) is not None
    text = (tmp_path / "state.json").read_text()
    (tmp_path / "state.json").write_text(text.replace("example.com", "example.org"))
    with pytest.raises(ReproKitError, match="is not marked as yours on this machine"):
        read_own_state(tmp_path)
