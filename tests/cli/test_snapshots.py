"""The help and the commonest cheap endings of each command are reviewed as text: tests/snapshots/COMMAND.txt."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from repro_kit.cli.main import COMMANDS, main
from root import ROOT

PLACE = ROOT / "tests" / "snapshots"
#: Set by scripts/record_snapshots.py: the files are written, not compared.
RECORDS = bool(os.environ.get("REPRO_KIT_RECORDS_SNAPSHOTS"))

#: What is run, in a directory with `train.py`, `notes.txt` and an empty directory `folder`; `collect` has fake stages.
ENDINGS = {
    "repro-kit": ["--help", "", "colect train.py", "train.py --epochs 1", "folder", "verfy"],
    "collect": [
        "--help",
        "train.py",
        "--fresh --json train.py",
        "train.py --json",
        "",
        "nowhere.py",
        "notes.txt",
        "folder",
        "--only observe --skip ablate train.py",
        "--chek accuracy train.py",
        "--check speed train.py",
        "--timeout -3 train.py",
        "--oracle-matches x train.py",
        "--json nowhere.py",
        "-m no_such_module",
    ],
    "observe": ["--help", "train.py"],
    "capture": ["--help", "train.py"],
    "minify": ["--help", "train.py", "--history", "--history folder"],
    "ablate": [
        "--help",
        "train.py",
        "--narrow everything train.py",
        "--axis speed=1 train.py",
        "--expect x train.py",
        "--against notes.txt train.py",
    ],
    "bundle": ["--help", "train.py", "--comment x train.py"],
    "show": ["--help", "nowhere.zip", "folder", "notes.txt", "nowhere.zip --json"],
    "diff": ["--help", "nowhere.zip folder", "folder"],
    "verify": [
        "--help",
        "",
        "nowhere.zip",
        "folder",
        "notes.txt",
        "train.py",
        "--markdown folder",
        "--against-nightly --on 2.13.0 folder",
        "--on 2.13.0 folder train.py",
    ],
    "check": ["--help", "nowhere", "train.py --baseline nowhere.toml", "--no-reduce"],
    "explain": [
        "--help",
        "nowhere.log",
        "notes.txt",
        "folder",
        "--list --against folder train.py",
        "--list --html x.html train.py",
        "--timeout 3 notes.txt",
        "--try notes.txt",
        "notes.txt x",
    ],
    "demo": ["--help", "--python nowhere"],
    "env": ["--help", "--python nowhere", "--python nowhere --json"],
    "bisect": ["--help", "", "nowhere.zip", "--constraint nowhere.txt train.py", "--good 1 --good 2 train.py"],
    "nightly": ["--help", "", "nowhere", "folder"],
    "farm": [
        "--help",
        "",
        "statsu",
        "add --help",
        "add nowhere.zip",
        "run --help",
        "run",
        "run --shard 3/2",
        "status --help",
        "status",
        "status --state broken",
        "report --help",
        "report",
        "file --help",
        "file a",
        "export --help",
        "export",
        "merge --help",
        "merge nowhere",
        "untrack --help",
        "untrack nightly",
    ],
    "mcp": ["--help"],
    "completion": ["--help", "tcsh", ""],
}


def shown(words: list[str], work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command line prints, and how it ends, without what differs from machine to machine."""
    monkeypatch.setattr(sys, "argv", ["repro-kit", *words])
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    text = printed.out + "".join(f"! {line}\n" for line in printed.err.splitlines())
    for path, name in ((str(work), "DIR"), (sys.executable, "PYTHON"), (sys.prefix, "PREFIX")):
        text = text.replace(path, name)
    text = re.sub(r'(?<="seconds": )[\d.e-]+', "0", re.sub(r"\b\d+\.\d+ s\b", "0.0 s", text))
    return f"$ {' '.join(['repro-kit', *words])}\n{text.rstrip()}\n[exit {int(ended.value.code or 0)}]\n"


def test_every_command_has_a_snapshot() -> None:
    assert ENDINGS.keys() == {"repro-kit", *COMMANDS}
    assert RECORDS or {path.stem for path in PLACE.iterdir()} == ENDINGS.keys()


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("name", ENDINGS)
def test_the_words_of_a_command(
    name: str, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(work / "config"))
    (work / "notes.txt").write_text("Nothing to see.\n")
    (work / "folder").mkdir()
    command = [] if name == "repro-kit" else [name]
    text = "\n".join(shown([*command, *line.split()], work, capsys, monkeypatch) for line in ENDINGS[name])
    path = PLACE / f"{name}.txt"
    if RECORDS:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "read the difference; scripts/record_snapshots.py accepts it"
