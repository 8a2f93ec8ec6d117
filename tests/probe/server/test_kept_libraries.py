"""Queries of one server build equal libraries once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from repro_kit.runner.supervised import PROBE

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ONE = 'extern "C" int one() { return 1; }'
Build = Callable[..., Path]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that the C++ compiler was run with."""
    from torch._inductor import cpp_builder

    run, ran = cpp_builder.run_compile_cmd, []

    def noted(command: str, cwd: str) -> None:
        ran.append(command)
        run(command, cwd=cwd)

    monkeypatch.setattr(cpp_builder, "run_compile_cmd", noted)
    return ran


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Build a source as the query of a number does, and return the library."""
    monkeypatch.syspath_prepend(str(PROBE))
    from torch._inductor import cpp_builder

    from repro_probe.server.shared_builds import build_whole

    monkeypatch.setattr(cpp_builder.CppBuilder, "build", cpp_builder.CppBuilder.build)  # put back afterwards
    build_whole(str(tmp_path / "libraries"))

    def in_query(number: int, text: str = ONE, **options: object) -> Path:
        cache = tmp_path / f"query-{number}" / "cache"
        cache.mkdir(parents=True)
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
        source = cache / "lib.cpp"
        source.write_text(text.replace("CACHE", str(cache)))
        words = cpp_builder.CppOptions(**options)
        builder = cpp_builder.CppBuilder("lib", [str(source)], words, str(cache))
        builder.build()
        return Path(builder.get_target_file_path())

    return in_query


def test_an_equal_library_is_built_once_and_each_query_has_its_own_copy(build: Build, commands: list[str]) -> None:
    first, second = build(1), build(2)
    assert len(commands) == 1
    assert first != second and first.read_bytes() == second.read_bytes()
    assert first.stat().st_ino != second.stat().st_ino
    first.write_bytes(b"spoiled by a program")
    assert build(3).read_bytes() == second.read_bytes()
    assert [path.name for path in second.parent.iterdir() if path.is_file()] == ["lib.cpp", second.name]


def test_a_library_that_the_observed_run_built_under_the_same_name_is_taken(
    build: Build, commands: list[str], tmp_path: Path
) -> None:
    kept = tmp_path / "libraries" / build(1).name
    kept.write_bytes(b"built by the observed run")
    assert build(2, "another source").read_bytes() == kept.read_bytes()
    assert len(commands) == 1


@pytest.mark.parametrize(
    ("text", "options"),
    [('extern "C" int one() { return 2; }', {}), (ONE, {"extra_flags": ["-DOTHER"]})],
    ids=["another source", "another option"],
)
def test_another_library_is_built(text: str, options: dict[str, object], build: Build, commands: list[str]) -> None:
    build(1)
    build(2, text, **options)
    assert len(commands) == 2


def test_what_the_compiler_may_read_elsewhere_is_built_anew(
    build: Build, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        build(number, f"// CACHE\n{ONE}")
    assert len(commands) == 2
    build(3)
    monkeypatch.setenv("CPATH", "/other/headers")
    build(4)
    assert len(commands) == 4


def test_a_library_that_the_compiler_refuses_is_refused_again(build: Build, commands: list[str]) -> None:
    for number in (1, 2):
        with pytest.raises(Exception, match="C"):
            build(number, "no C++")
    assert len(commands) == 2
