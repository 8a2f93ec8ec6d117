"""Queries of one server run the preprocessor over torch's headers once."""

from pathlib import Path

import pytest

from repro_kit.runner.supervised import PROBE

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_a_header_is_preprocessed_once_for_each_set_of_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROBE))
    from torch._inductor import codecache, cpp_builder

    from repro_probe.server import shared_builds

    if not hasattr(codecache, "_precompile_header"):
        pytest.skip("this torch precompiles no headers")
    preprocessed: list[str] = []
    build = cpp_builder.CppBuilder.build

    def counted(builder: cpp_builder.CppBuilder) -> None:
        if " -E " in f" {builder.get_command_line()} ":
            preprocessed.append(builder.get_command_line())
        build(builder)

    monkeypatch.setattr(cpp_builder.CppBuilder, "build", counted)
    monkeypatch.setattr(codecache, "_precompile_header", codecache._precompile_header)  # put back afterwards
    monkeypatch.setattr(codecache, "_HEADER_DIR", str(tmp_path / "headers"))
    monkeypatch.setattr(codecache, "_HEADER_LOCK_DIR", str(tmp_path / "headers" / "locks"))
    forget = codecache._precompile_header.cache_clear  # as in another process
    shared_builds.share_headers(str(tmp_path))

    def asked(flags: str) -> str:
        forget()
        command = {"device_type": "cpu", "min_optimize": True}
        return codecache._precompile_header("torch/csrc/inductor/cpp_prefix.h", flags, **command)

    first = asked("")
    assert asked("") == first
    assert len(preprocessed) == 1
    assert Path(f"{first}.gch").is_file()
    assert asked("-O3") != first
    assert len(preprocessed) == 2
    Path(first).unlink()
    assert asked("") == first
    assert len(preprocessed) == 3
