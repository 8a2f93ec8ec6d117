"""What the help of the commands promises, and options that need another one."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.case.case import Case, Subject
from repro_kit.case.handles import OBSERVATION
from repro_kit.cli.main import cli
from repro_kit.model.measure.symptom import FORMS


def said(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words, prog_name="repro-kit")
    return result.exit_code, result.output


def test_the_help_of_check_names_every_symptom() -> None:
    _, text = said("collect", "--help")
    assert "".join(FORMS.split()) in "".join(text.split())


def test_the_help_of_a_group_keeps_its_lines() -> None:
    _, text = said("farm", "--help")
    assert "\\b" not in text and "\n  repro-kit farm status\n" in text


def test_many_options_stand_under_headings_and_help_is_the_last() -> None:
    lines = said("collect", "--help")[1].splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings[0] == "The case:" and headings[-1] == "Answers and output:" and len(headings) == 7
    assert lines[-1].split()[0] == "-h," and "1000000000" not in "".join(lines)


def test_few_options_are_one_list() -> None:
    _, text = said("show", "--help")
    assert "Options:\n" in text and "Answers and output:" not in text


@pytest.mark.parametrize("option", [("--package", "torchvision"), ("--markdown",), ("--cache", "x")])
def test_an_option_for_builds_needs_builds(option: tuple[str, ...], tmp_path: Path) -> None:
    status, text = said("verify", *option, str(tmp_path))
    assert status == 2 and f"{option[0]} needs builds" in text


def test_a_case_takes_every_name_of_its_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    subject = Subject("command", ("true",), str(tmp_path), str(python))
    case = Case.create(tmp_path / "a.repro", subject, "2030-01-01T00:00:00Z")
    case.accept()
    monkeypatch.chdir(tmp_path)
    _, text = said("bundle", "--python", "venv", "a.repro")
    assert "was made with" not in text
    _, text = said("bundle", "--python", "/bin/sh", "a.repro")
    assert "was made with" in text and not case.holds(OBSERVATION)
