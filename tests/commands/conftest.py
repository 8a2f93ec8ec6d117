"""A command line that runs in a directory of its own, with a cache of its own but for what the compiler can do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repro_kit.cli.main import main
from repro_kit.runner.places import cache_home
from wheelhouse import SCRIPT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory, with a script that uses the package; nothing is looked up beyond this machine."""
    compiler = cache_home() / "compiler"
    compiler.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache" / "repro-kit").mkdir(parents=True)
    (tmp_path / "cache" / "repro-kit" / "compiler").symlink_to(compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")  # a cell of a table is one line
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "nothing").as_uri())
    place = tmp_path / "project"
    place.mkdir()
    (place / "use.py").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def bisect(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run `repro-kit bisect`: its exit code, and all it prints."""

    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["bisect", "--package", "frob", "--python", sys.executable, *words])
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out + shown.err

    return run
