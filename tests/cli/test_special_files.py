"""A pipe, a device or a directory where a file is expected is one sentence, and is not waited for."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.errors import ReproKitError
from repro_kit.files import check_tree, open_plain, read_plain
from samples.hostile_files import bundle_of, sealed, write_zip
from samples.special_files import write_special

KINDS = ("pipe", "device", "endless", "socket", "directory", "loop", "dangling")
COMMANDS = (
    "show X", "diff X good.zip", "diff good.zip X", "verify --yes X", "explain X", "explain --against X good.zip",
    "minify X", "collect X", "bundle X", "bisect --yes X", "nightly --yes X", "ablate --against X a.py",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["x.zip", "x.py"])
def test_one_sentence(tmp_path, monkeypatch, kind, command, name):
    monkeypatch.chdir(tmp_path)
    write_zip(Path("good.zip"), sealed(bundle_of()))
    write_special(tmp_path / name, kind)
    result = CliRunner().invoke(cli, command.replace("X", name).split(), prog_name="repro-kit")
    assert result.exit_code == 2 and "unexpected" not in result.output, result.output
    assert len(result.output.splitlines()) <= 2 or "Usage" in result.output, result.output


@pytest.mark.parametrize("kind", ("pipe", "device", "endless", "socket", "directory"))
def test_what_is_no_plain_file_is_not_opened(tmp_path, kind):
    write_special(tmp_path / "x", kind)
    with pytest.raises(ReproKitError, match="give a plain file"):
        open_plain(tmp_path / "x")


def test_no_more_is_read_than_is_wanted(tmp_path):
    (tmp_path / "x").write_bytes(b"123")
    assert read_plain(tmp_path / "x", 3) == b"123"
    with pytest.raises(ReproKitError, match="larger than"):
        read_plain(tmp_path / "x", 2)


@pytest.mark.parametrize("kind", ("pipe", "endless"))
def test_a_case_with_a_pipe_in_it_is_refused(tmp_path, kind):
    (tmp_path / "observe").mkdir()
    write_special(tmp_path / "observe" / "run.json", kind)
    with pytest.raises(ReproKitError, match=r"run\.json is a (pipe|device); remove it from"):
        check_tree(tmp_path)


@pytest.mark.parametrize(
    "command", ["explain X", "collect X", "show X", "verify --yes X", "minify X", "bisect --yes X"]
)
def test_a_file_that_opens_and_cannot_be_read_is_named(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, command.replace("X", "/proc/self/mem").split(), prog_name="repro-kit")
    assert result.exit_code == 2 and "unexpected" not in result.output, result.output
    assert "/proc/self/mem" in result.output and "Input/output error" in result.output
