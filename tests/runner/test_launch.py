"""How a run that ended, or could not go on, is told."""

import errno
import os
import sys
from pathlib import Path

import pytest

from repro_kit.errors import UsageError
from repro_kit.runner.supervised import Run, launch, with_probe

END_BY_REAL_TIME_SIGNAL = "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 2)"


def launched(tmp_path: Path, *argv: str, on_tick=None) -> Run:
    return launch(
        argv,
        cwd=tmp_path,
        env=os.environ,
        timeout=60,
        stdout=tmp_path / "out.txt",
        stderr=tmp_path / "err.txt",
        on_tick=on_tick,
    )


def test_a_real_time_signal_has_its_number_as_its_name(tmp_path: Path) -> None:
    assert launched(tmp_path, sys.executable, "-c", END_BY_REAL_TIME_SIGNAL).signal in {"SIG36", "SIGRTMIN+2"}


def test_what_cannot_be_started_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Cannot start /nowhere/python: No such file"):
        launched(tmp_path, "/nowhere/python")


def test_what_goes_wrong_beside_a_run_is_none(tmp_path: Path) -> None:
    def full(seconds: float) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        launched(tmp_path, sys.executable, "-c", "import time; time.sleep(30)", on_tick=full)


def test_what_the_user_has_on_pythonpath_stays_there() -> None:
    first, second = with_probe({"PYTHONPATH": "/opt/torch"})["PYTHONPATH"].split(os.pathsep)
    assert first.endswith("probe") and second == "/opt/torch"
    assert os.pathsep not in with_probe({})["PYTHONPATH"]


def test_the_probe_is_on_the_path_wherever_repro_kit_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = tmp_path / "a:b" / "probe"
    probe.mkdir(parents=True)
    (probe / "marker.py").write_text("")
    monkeypatch.setattr("repro_kit.runner.supervised.PROBE", probe)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in range(2):
        own, users = with_probe({"PYTHONPATH": "/users"})["PYTHONPATH"].split(os.pathsep)
        assert (Path(own) / "marker.py").is_file() and users == "/users"
    assert [path.is_symlink() for path in (tmp_path / "cache" / "repro-kit" / "places").iterdir()] == [True]
