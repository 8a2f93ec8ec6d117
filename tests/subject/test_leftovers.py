"""What a debugging session left is found where torch looks for it."""

from pathlib import Path

import pytest

from repro_kit.runner.compiler import users_cache
from repro_kit.subject.users_environment import size_of_cache, warnings_of_leftovers


def test_a_bisection_that_was_not_ended_is_told(tmp_path: Path) -> None:
    env = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    assert warnings_of_leftovers(env) == []
    status = tmp_path / "bisect" / "bisect_status.txt"
    status.parent.mkdir()
    status.write_text("backend=eager\nsubsystem=\n")
    (sentence,) = warnings_of_leftovers(env)
    assert str(status) in sentence and "'eager'" in sentence
    status.write_text("")
    assert warnings_of_leftovers(env) == []


def test_a_cache_that_breaks_compilations_is_told(tmp_path: Path) -> None:
    (sentence,) = warnings_of_leftovers({"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "my cache")})
    assert "does not quote" in sentence and "my cache" in sentence
    assert warnings_of_leftovers({"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "ä#;$%")}) == []


def test_variables_of_a_bisection_are_told(tmp_path: Path) -> None:
    env = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCH_BISECT_BACKEND": "aot_eager"}
    assert warnings_of_leftovers(env) == [
        "TORCH_BISECT_BACKEND=aot_eager is set and changes what is compiled in every run; unset it."
    ]


def test_the_cache_is_the_users_own_unless_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert users_cache({}).name == "torchinductor_ada"
    assert users_cache({"TORCHINDUCTOR_CACHE_DIR": "/c"}) == Path("/c")


def test_a_cache_is_measured_though_files_of_it_go_away(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_bytes(b"12345")
    (tmp_path / "gone.py").symlink_to(tmp_path / "removed.py")
    header = tmp_path / "precompiled_headers" / "a" / "header.gch"
    header.parent.mkdir(parents=True)
    header.write_bytes(b"a copy leaves this out")
    assert size_of_cache(tmp_path) == 5 and size_of_cache(tmp_path / "none") == 0
