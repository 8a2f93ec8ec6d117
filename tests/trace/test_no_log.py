"""What holds no log is named, with what to do."""

import bz2
import gzip
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.trace.reader import no_log
from root import ROOT

LOG = ROOT / "tests/trace/fixtures/backward_error.log"


@pytest.mark.parametrize(
    ("pack", "unpacker"), [(gzip.compress, "gunzip"), (bz2.compress, "bunzip2"), (lzma.compress, "unxz")]
)
def test_a_compressed_log(pack: Callable[[bytes], bytes], unpacker: str, tmp_path: Path) -> None:
    file = tmp_path / "rank_0.log.packed"
    file.write_bytes(pack(LOG.read_bytes()))
    said = f"{file} is compressed; unpack it first: {unpacker} rank_0.log.packed"
    assert no_log(file) == no_log(tmp_path) == said


@pytest.mark.parametrize("command", ["explain", "minify", "collect"])
def test_every_command_names_a_compressed_log(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.log").write_bytes(gzip.compress(LOG.read_bytes()))
    ran = CliRunner().invoke(cli, [command, "trace.log"])
    assert ran.exit_code == 2
    assert "trace.log is compressed; unpack it first: gunzip trace.log" in " ".join(ran.output.split())


def test_a_directory_of_directories(tmp_path: Path) -> None:
    assert "is an empty directory; torch writes its logs where TORCH_TRACE says" in no_log(tmp_path)
    for rank in range(2):
        (tmp_path / f"rank_{rank}").mkdir()
        shutil.copy(LOG, tmp_path / f"rank_{rank}" / "raw.log")
    assert no_log(tmp_path).endswith("its directories do (rank_0, rank_1); give one of them.")


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(b"PK")
    assert no_log(tmp_path / "model.pt2").endswith(f"no trace; compile it with: repro-kit collect {tmp_path}/model.pt2")
    (tmp_path / "cut.log").touch()
    assert "cut.log is empty" in no_log(tmp_path / "cut.log")
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt holds no records of torch; give a TORCH_TRACE log" in no_log(tmp_path / "notes.txt")
