"""No path that torch gives to a compiler needs quotes, whatever the user's directories are called."""

import os
import tempfile
from pathlib import Path

import pytest

from repro_kit.commands.farm.place import FarmPlace
from repro_kit.errors import UsageError
from repro_kit.runner.compiler import probes
from repro_kit.runner.places import (
    breaks_commands,
    cache_home,
    instead_of,
    is_harmless,
    remove_abandoned,
    scratch,
    temporary,
    temporary_variables,
)
from repro_kit.runner.server import ServerProcess
from repro_kit.runner.subject_start import private_caches

NAMES = ["a b", "it's", 'the "x"', "$HOME", "a;b", "#1", "100%", "größe", "two\nlines", "a\\b", "x" * 200, "a:b"]


@pytest.mark.parametrize("name", NAMES)
def test_whatever_directories_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr("repro_kit.runner.places.OTHERS", (str(tmp_path),))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.chdir(place)
    with scratch() as made:
        assert is_harmless(made)
    known = probes("/venv/bin/python")
    assert known is not None and is_harmless(known) and is_harmless(known.resolve())
    assert is_harmless(instead_of(place / "envs")) and instead_of(place / "envs") == instead_of(place / "envs")
    assert is_harmless(FarmPlace(place).environments)
    server = ServerProcess("python", how="fork")
    own = Path(server.environment().get("TMPDIR", place))
    assert own == temporary() and is_harmless(own)
    with private_caches("/venv/bin/python") as env:
        cache = Path(env["TORCHINDUCTOR_CACHE_DIR"])
        assert breaks_commands(cache) == breaks_commands(place)  # as without repro-kit
        assert cache.is_dir()
    assert not cache.exists()


def test_a_usual_place_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert temporary() == tmp_path and temporary_variables() == {}
    assert instead_of(tmp_path / "envs") == tmp_path / "envs"


def test_what_a_killed_run_left_elsewhere_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a b"))
    monkeypatch.setattr("repro_kit.runner.places.OTHERS", (str(tmp_path),))
    abandoned = tmp_path / "repro-kit-1-abcdefgh"
    abandoned.mkdir()
    with scratch() as made:
        assert made.parent == tmp_path.resolve() and not abandoned.exists()
    remove_abandoned(temporary())
    assert list(tmp_path.iterdir()) == []


def test_a_place_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a b"))
    assert cache_home() == tmp_path / "a b" / "repro-kit"
    (tmp_path / f"repro-kit-of-{os.getuid()}").mkdir()
    (tmp_path / f"repro-kit-of-{os.getuid()}").chmod(0o777)
    with pytest.raises(UsageError, match="not yours alone"):
        instead_of(tmp_path / "c d")
    assert probes("/venv/bin/python") is None
