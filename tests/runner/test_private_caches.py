"""What is in the cache directory of a run."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from repro_kit.runner.compiler import give_headers, give_probes, probes, take_libraries, take_probes
from repro_kit.runner.subject_start import private_caches

PROGRAM = """import torch
RECIPE = {}
def graph(x):
    return (torch.relu(x),)
def calls():
    return [(torch.randn(4),)]
"""


def test_a_file_that_goes_while_the_cache_is_copied_is_left_out(tmp_path: Path, monkeypatch) -> None:
    cache = tmp_path / "cache"
    (cache / "precompiled_headers").mkdir(parents=True)
    for name in ("kernel.so", "kernel.so.tmp", "precompiled_headers/large.gch"):
        (cache / name).write_text("x")
    copy = shutil.copy2

    def copy_slowly(source: str, target: str) -> str:
        (cache / "kernel.so.tmp").unlink(missing_ok=True)
        return copy(source, target)

    monkeypatch.setattr(shutil, "copy2", copy_slowly)
    with private_caches("python", copy_of=cache) as env:
        copied = Path(env["TORCHINDUCTOR_CACHE_DIR"])
        assert [str(path.relative_to(copied)) for path in copied.rglob("*")] == ["kernel.so"]
    assert not copied.exists()


def test_a_cache_that_cannot_be_copied_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError), private_caches("python", copy_of=tmp_path / "none"):
        raise AssertionError("not reached")


def test_a_private_cache_has_the_probes_of_the_compiler_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    known = probes("/venv/bin/python")
    assert known is not None
    (known / "ab").mkdir()
    (known / "ab" / "probe.so").write_text("x")
    (known / "modules.txt").write_text("x")
    (known / "ab" / "other_CxxBuild").mkdir()  # another process is at it
    with private_caches("/venv/bin/python") as env:
        cache = Path(env["TORCHINDUCTOR_CACHE_DIR"])
        assert [path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file()] == ["ab/probe.so"]
    with private_caches("/other/bin/python") as env:
        assert not list(Path(env["TORCHINDUCTOR_CACHE_DIR"]).iterdir())


def test_the_probes_that_a_run_has_built_are_kept_and_its_kernels_are_not(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    cache = tmp_path / "cache"
    (cache / "ab").mkdir(parents=True)
    for name, code in (("probe", "void __avx_chk_kernel() {}"), ("kernel", "void kernel() {}")):
        (cache / "ab" / f"{name}.cpp").write_text(code)
        (cache / "ab" / f"{name}.so").write_text("x")
        (cache / "ab" / f"{name}.so.loads").touch()
    (cache / "ab" / "not_built.cpp").write_text("void __avx_chk_kernel() {}")
    take_probes("/venv/bin/python", cache)
    known = probes("/venv/bin/python")
    assert known is not None
    kept = ["ab/probe.so", "ab/probe.so.loads"]
    assert sorted(path.relative_to(known).as_posix() for path in known.rglob("*") if path.is_file()) == kept
    give_probes("/venv/bin/python", tmp_path / "next")
    assert sorted(path.relative_to(tmp_path / "next").as_posix() for path in tmp_path.glob("next/*/*")) == kept


def test_the_kernels_of_the_last_run_are_kept_for_the_queries(tmp_path: Path) -> None:
    for number, name in enumerate(("first", "second")):
        cache = tmp_path / f"cache-{number}"
        (cache / "ab").mkdir(parents=True)
        (cache / "ab" / f"{name}.so").write_bytes(b"\x7fELF and code")
        (cache / "ab" / f"{name}_cut_off.so").write_bytes(bytes(20))
        (cache / "ab" / f"{name}.cpp").write_text("void kernel() {}")
        take_libraries(cache, tmp_path / "kernels")
    assert [path.name for path in (tmp_path / "kernels").iterdir()] == ["second.so"]


def test_headers_that_are_being_written_are_not_handed_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "me")
    known = tmp_path / "torchinductor_me" / "precompiled_headers"
    known.mkdir(parents=True)
    for name, age in (("old.h.gch", 1000), ("new.h.gch", 0)):
        (known / name).write_text("x")
        os.utime(known / name, (time.time() - age,) * 2)
    give_headers(tmp_path / "run")
    given = tmp_path / "run" / "torchinductor_me" / "precompiled_headers"
    assert [path.name for path in given.iterdir()] == ["old.h.gch"]


def test_what_was_not_used_for_long_goes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    old, young = probes("/old/python"), probes("/young/python")
    assert old is not None and young is not None
    os.utime(old, (0, 0))
    assert probes("/young/python") == young
    assert not old.exists()
