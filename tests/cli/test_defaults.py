"""Defaults from pyproject.toml."""

from __future__ import annotations

import click
import pytest

from repro_kit.cli import options as shared
from repro_kit.cli.collect import command
from repro_kit.cli.defaults import KEYS, read_defaults
from repro_kit.errors import ReproKitError


def write(place, text):
    (place / "pyproject.toml").write_text(f"[tool.repro-kit]\n{text}\n")


def test_nearest_file_upward_counts(tmp_path):
    write(tmp_path, "timeout = 60\ninclude-values = true")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert read_defaults(deep) == {"timeout": 60, "include_values": True}
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert read_defaults(deep) == {}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("tiemout = 5", "no key 'tiemout'"),
        ("yes = true", "no key 'yes'"),
        ("timeout = '5'", "timeout must be a number"),
        ("jobs = 1.5", "jobs must be a whole number"),
        ("jobs = true", "jobs must be a whole number"),
        ("jobs = 0", "greater than 0"),
        ("timeout = nan", "greater than 0"),
        ("check = 'speed'", "is no symptom"),
        ("timeout = [", "cannot be read"),
    ],
)
def test_bad_tables_are_one_sentence(tmp_path, text, part):
    write(tmp_path, text)
    with pytest.raises(ReproKitError, match=part) as caught:
        read_defaults(tmp_path)
    assert "pyproject.toml" in str(caught.value)


def test_table_of_another_type(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool]\nrepro-kit = 3\n")
    with pytest.raises(ReproKitError, match="must be a table"):
        read_defaults(tmp_path)


def test_paths_are_relative_to_the_file(tmp_path):
    write(tmp_path, "python = './venv/bin/python'\noutput = 'name'")
    (tmp_path / "sub").mkdir()
    assert read_defaults(tmp_path / "sub") == {"python": str(tmp_path / "venv/bin/python"), "output": "name"}


def test_command_line_wins(tmp_path, monkeypatch):
    write(tmp_path, "timeout = 60\njobs = 3\ndebug-artifacts = true")
    monkeypatch.chdir(tmp_path)
    with command.make_context("collect", ["--timeout", "5", "x.py"]) as ctx:
        options = shared.make_options(shared.merged(ctx))
    assert (options.timeout, options.jobs, options.debug_artifacts) == (5, 3, True)


def test_every_key_is_an_option_of_collect():
    names = {param.name for param in command.params if isinstance(param, click.Option)}
    assert {key.replace("-", "_") for key in KEYS} <= names


def test_bad_file_ends_the_command_but_not_its_help(work, repro_kit):
    write(work, "tiemout = 5")
    result = repro_kit("collect", "train.py")
    assert result.exit_code == 2 and "tiemout" in result.stderr and "Traceback" not in result.output
    assert repro_kit("collect", "--help").exit_code == 0
