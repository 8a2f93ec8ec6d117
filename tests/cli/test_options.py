"""What the help of the commands promises, and options that need another one."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION
from repro_kit.cli.main import COMMANDS, cli, main
from repro_kit.failure.kinds import SYMPTOM_FORMS


def said(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words, prog_name="repro-kit")
    return result.exit_code, result.output


def test_the_help_of_check_names_every_symptom() -> None:
    _, text = said("collect", "--help")
    assert "".join(SYMPTOM_FORMS.split()) in "".join(text.split())


def test_help_has_its_short_name_whoever_asks_for_it_first() -> None:
    from repro_kit.cli.stories import show

    show.get_params(click.Context(show))  # click keeps the help option that is made here
    assert "-h, --help" in said("show", "--help")[1]


def test_defaults_have_one_form() -> None:
    for name in COMMANDS:
        text = " ".join(said(name, "--help")[1].split())
        assert [
            found for found in re.findall(r"(?<=[.…] )\[([^\]]+)\]", text) if not found.startswith("default: ")
        ] == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["colect", "train.py"], "Did you mean collect?"),
        (["verfy"], "Did you mean verify?"),
        (["train.py", "--epochs", "1"], "repro-kit collect train.py --epochs 1"),
        (["sh", "-c", "true"], "repro-kit collect -- sh -c true"),
        (["."], "repro-kit show ."),
        (["farm", "statsu"], "Did you mean status?"),
        (["collect", "--chek", "accuracy", "train.py"], "--check"),
    ],
)
def test_what_may_have_been_meant(words: list[str], meant: str) -> None:
    status, text = said(*words)
    assert status == 2 and meant in " ".join(text.split())


@pytest.mark.parametrize(
    "words",
    [
        ["colect"],
        ["collect", "--nope"],
        ["collect", "--chek", "accuracy", "x.py"],
        ["verify"],
        ["collect", "--timeout", "-3", "x.py"],
    ],
)
def test_every_error_has_one_form(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--chek" not in words or "There is no option --chek. Did you mean --check?" in line
    assert line.startswith("error: ") and line.endswith(" --help.")


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
