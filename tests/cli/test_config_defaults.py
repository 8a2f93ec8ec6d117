"""Defaults from pyproject.toml."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import pytest

from repro_kit.cli.common.config_defaults import KEYS, read_defaults
from repro_kit.cli.common.values import make_options, merged
from repro_kit.cli.main import COMMANDS, cli
from repro_kit.cli.stages import collect
from repro_kit.errors import ReproKitError
from repro_kit.options.commands import every_option
from repro_kit.options.declare import Source
from samples import strangers


def write(place, text):
    (place / "pyproject.toml").write_text(f"[tool.repro-kit]\n{text}\n")


def values(cwd):
    """What files set for a command started in `cwd`; nothing was ignored."""
    defaults = read_defaults(cwd)
    assert defaults.notes == ()
    return {name: it.value for name, it in defaults.values.items()}


def configure(monkeypatch, home, text):
    """A user's configuration with `text`."""
    place = home / "repro-kit"
    place.mkdir(parents=True, mode=0o700)
    (place / "config.toml").write_text(text)
    (place / "config.toml").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    return place / "config.toml"


@pytest.fixture
def deep(tmp_path):
    """A directory within a repository at `tmp_path`."""
    (tmp_path / ".git").mkdir()
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    return place


def test_nearest_file_within_the_repository_counts(tmp_path, deep):
    write(tmp_path, "timeout = 60\ninclude-values = false")
    assert values(deep) == {"timeout": 60, "include_values": False}
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert values(deep) == {}


@pytest.mark.parametrize("change", strangers.files())
def test_a_strange_file_is_ignored_and_told(tmp_path, deep, change):
    write(tmp_path, "timeout = 60")
    assert values(deep) == {"timeout": 60}
    change(tmp_path, deep)
    defaults = read_defaults(deep)
    assert defaults.values == {}
    (note,) = defaults.notes
    assert f"{tmp_path}/pyproject.toml is ignored: " in note


@pytest.mark.parametrize("change", [strangers.above_the_repository, strangers.no_repository])
def test_a_strange_file_that_sets_nothing_is_not_told_of(tmp_path, deep, change):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    change(tmp_path, deep)
    assert read_defaults(deep).notes == ()


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pyproject.toml")
    assert read_defaults(tmp_path).values == {}


def test_a_linked_working_directory_is_what_it_links_to(tmp_path, deep, monkeypatch):
    write(tmp_path, "timeout = 60")
    link = tmp_path / "elsewhere"
    link.symlink_to(deep)
    monkeypatch.chdir(link)
    assert values(Path.cwd()) == {"timeout": 60}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("python = './venv/bin/python'", "may not set python"),
        ("trace = 'yes'", "may not set trace"),
        ("trace = 'redacted'", "may not set trace"),
        ("include-values = true", "may not set include-values"),
        ("yes = true", "may not set yes"),
        ("oracle = 'rm -rf .'", "may not set oracle"),
        ("backend = ['a:b']", "may not set backend"),
        ("gh = true", "may not set gh"),
        ("open = true", "may not set open"),
        ("check = 'compile-time>2x@inductor.cpp.cxx=/tmp/x'", "may not set check"),
        ("output = '/tmp/elsewhere'", "lies outside of the project"),
        ("output = '../elsewhere'", "lies outside of the project"),
        ("output = '..'", "lies outside of the project"),
    ],
)
def test_what_runs_something_or_shows_more_is_not_for_a_project(tmp_path, text, part):
    write(tmp_path, text)
    with pytest.raises(ReproKitError, match=part) as caught:
        read_defaults(tmp_path)
    assert "on the command line" in str(caught.value)


def test_an_output_through_a_link_lies_where_the_link_goes(tmp_path):
    write(tmp_path, "output = './link/x'")
    (tmp_path / "link").symlink_to("/tmp")
    with pytest.raises(ReproKitError, match="lies outside of the project"):
        read_defaults(tmp_path)


def test_the_user_s_configuration_may_set_all_keys_and_the_project_comes_first(tmp_path, monkeypatch):
    text = "python = '/p'\ntrace = 'yes'\ninclude-values = true\nyes = true\ntimeout = 5\njobs = 2\n"
    configure(monkeypatch, tmp_path / "home", text)
    write(tmp_path, "timeout = 60\ntrace = 'no'")
    expected = {"python": "/p", "trace": "no", "include_values": True, "yes": True, "timeout": 60, "jobs": 2}
    assert values(tmp_path) == expected


def test_the_user_s_configuration_may_be_a_link_of_the_user_s(tmp_path, monkeypatch):
    path = configure(monkeypatch, tmp_path / "home", "timeout = 5")
    path.rename(tmp_path / "dotfile")
    path.symlink_to(tmp_path / "dotfile")
    assert values(tmp_path) == {"timeout": 5}


@pytest.mark.parametrize("which", ["file", "directory"])
def test_a_configuration_that_others_can_write_ends_the_command(tmp_path, monkeypatch, which):
    path = configure(monkeypatch, tmp_path / "home", "timeout = 5")
    (path if which == "file" else path.parent).chmod(0o777)
    with pytest.raises(ReproKitError, match="can be written by others; make sure that only you can write it"):
        read_defaults(tmp_path)


def test_what_a_file_sets_is_announced_once_and_on_stderr(work, repro_kit, monkeypatch, fakes):
    path = configure(monkeypatch, work / "home", f"python = '{sys.executable}'\ntrace = 'no'\ntimeout = 50\n")
    result = repro_kit("collect", "--json", "train.py")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert lines == [f"note: python = {sys.executable!r} is set by {path}.", f"note: trace = 'no' is set by {path}."]
    assert "note: " not in result.stdout
    result = repro_kit("collect", "--trace", "no", "--python", sys.executable, "train.py")
    assert "is set by" not in result.stderr


def test_every_option_of_every_command_is_declared_and_nothing_else():
    loaded = [cli.get_command(click.Context(cli), name) for name in COMMANDS]
    commands = [*loaded, *(sub for it in loaded if isinstance(it, click.Group) for sub in it.commands.values())]
    options = [param for it in commands for param in it.params if isinstance(param, click.Option)]
    names = {
        name.removeprefix("--")
        for option in options
        for name in (*option.opts, *option.secondary_opts)
        if name[:2] == "--"
    }
    declared = every_option()
    assert names - {"no-workarounds", "no-reduce"} == declared.keys()
    assert all(it.rule.does for it in declared.values() if it.rule.source is not Source.PROJECT)


def test_a_value_must_be_one_that_the_command_line_takes(work, repro_kit):
    write(work, "border = 'nowhere'")
    result = repro_kit("collect", "train.py")
    assert result.exit_code == 2 and "pyproject.toml: border: 'nowhere' is not one of" in result.stderr


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("tiemout = 5", "no key 'tiemout'"),
        ("timeout = '5'", "timeout must be a number"),
        ("jobs = 1.5", "jobs must be a whole number"),
        ("jobs = true", "jobs must be a whole number"),
        ("jobs = 0", "greater than 0"),
        ("timeout = nan", "greater than 0"),
        ("check = 'speed'", "is not a symptom"),
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
    write(tmp_path, "output = './name'")
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    assert values(tmp_path / "sub") == {"output": str(tmp_path / "name")}


def test_paths_of_the_user_s_configuration_are_relative_to_it(tmp_path, monkeypatch):
    path = configure(monkeypatch, tmp_path / "home", "python = './venv/bin/python'")
    assert values(tmp_path) == {"python": str(path.parent / "venv/bin/python")}


def test_command_line_wins(tmp_path, monkeypatch):
    write(tmp_path, "timeout = 60\njobs = 3\ndebug-artifacts = true")
    monkeypatch.chdir(tmp_path)
    with collect.make_context("collect", ["--timeout", "5", "x.py"]) as ctx:
        options = make_options(merged(ctx))
    assert (options.observe.timeout, options.minify.jobs, options.observe.debug_artifacts) == (5, 3, True)


def test_every_key_is_an_option_of_collect():
    names = {param.name for param in collect.params if isinstance(param, click.Option)}
    assert {key.replace("-", "_") for key in KEYS} <= names


def test_bad_file_ends_the_command_but_not_its_help(work, repro_kit):
    write(work, "tiemout = 5")
    result = repro_kit("collect", "train.py")
    assert result.exit_code == 2 and "tiemout" in result.stderr and "Traceback" not in result.output
    assert repro_kit("collect", "--help").exit_code == 0
