"""What torch's C++ builder leaves behind is whole."""

from pathlib import Path

import pytest

from repro_kit.runner.supervised import PROBE

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_a_build_that_is_ended_leaves_no_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROBE))
    from torch._inductor import cpp_builder

    from repro_probe.server.shared_builds import build_whole

    monkeypatch.setattr(cpp_builder.CppBuilder, "build", cpp_builder.CppBuilder.build)  # put back afterwards
    build_whole()
    run = cpp_builder.run_compile_cmd
    written: list[str] = []

    def ended(command: str, cwd: str) -> None:
        run(command, cwd=cwd)
        written.extend(path.name for path in tmp_path.iterdir() if path.is_file())
        raise KeyboardInterrupt

    def builder() -> cpp_builder.CppBuilder:
        return cpp_builder.CppBuilder("lib", [str(source)], cpp_builder.CppOptions(), str(tmp_path))

    source = tmp_path / "lib.cpp"
    source.write_text('extern "C" int one() { return 1; }')
    target = Path(builder().get_target_file_path())
    monkeypatch.setattr(cpp_builder, "run_compile_cmd", ended)
    with pytest.raises(KeyboardInterrupt):
        builder().build()
    assert target.parent == tmp_path
    assert len(written) == 2
    assert target.name not in written
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["lib.cpp"]
    monkeypatch.setattr(cpp_builder, "run_compile_cmd", run)
    builder().build()
    assert target.is_file()
