"""The copy of a cache that is in use."""

import shutil
from pathlib import Path

import pytest

from repro_kit.runner.subject import private_caches


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
    with private_caches(tmp_path / "case", copy_of=cache) as env:
        copied = Path(env["TORCHINDUCTOR_CACHE_DIR"])
        assert [str(it.relative_to(copied)) for it in copied.rglob("*")] == ["kernel.so"]
    assert not copied.exists()


def test_a_cache_that_cannot_be_copied_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError), private_caches(tmp_path / "case", copy_of=tmp_path / "none"):
        raise AssertionError("not reached")
