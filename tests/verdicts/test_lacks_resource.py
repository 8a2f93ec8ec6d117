"""A C++ compiler that compiles nothing is the machine's, wherever torch meets it, and so is a limit of the shell's."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.verdicts.not_the_compiler import lacks_resource

_WITHOUT_OPENMP = """case "$*" in *-fopenmp*) echo "cannot read spec file 'libgomp.spec'" >&2; exit 1;; esac
while [ "$1" != -o ]; do shift; done; : > "$2"
"""


def raised(file: str, message: str) -> Failure:
    frame = Frame(f"/venv/lib/python3.11/site-packages/torch/_inductor/{file}.py", 10, "run", "")
    return Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("IndexError", message, (frame,)),))


@pytest.mark.parametrize(
    ("file", "compiler", "said"),
    [
        ("codecache", "/bin/true", "makes no file"),
        ("cpu_vec_isa", "/bin", "Permission denied"),
        ("cpp_builder", "/dev/null", "Permission denied"),
        ("graph", "/bin/true", ""),
    ],
)
def test_a_compiler_that_is_none(file: str, compiler: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler)
    stop = lacks_resource(raised(file, "list index out of range"))
    assert (said in str(stop) and compiler in str(stop)) if said else stop is None


def test_a_compiler_without_the_library_for_threads(tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\n{_WITHOUT_OPENMP}")
    compiler.chmod(0o700)
    message = "C++ compile error\n\nCommand:\n{} /tmp/x/k.cpp -O3 {}-o k.so\n\nOutput:\nno"
    links = [ExceptionLink("CppCompileError", message.format(compiler, flags), ()) for flags in ("-fopenmp ", "")]
    told, untold = (lacks_resource(Failure(Kind.COMPILE_ERROR, exceptions=(link,))) for link in links)
    assert "libgomp.spec" in str(told) and untold is None


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGXCPU"])
def test_the_end_of_the_processor_time_is_the_limits(signal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Failure(Kind.CRASH, signal=signal)
    assert lacks_resource(killed) is None
    limits = {resource.RLIMIT_CPU: (4, 4)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits.get(kind, (resource.RLIM_INFINITY,) * 2))
    assert "processor time: its limit is 4 s" in str(lacks_resource(killed))
    assert "ulimit -t" in str(lacks_resource(killed))
    assert lacks_resource(Failure(Kind.CRASH, signal="SIGSEGV")) is None


@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_memory_that_the_shell_limits_is_the_limits(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {kind: (2**30, 2**30)}
    monkeypatch.setattr(resource, "getrlimit", lambda asked: limits.get(asked, (resource.RLIM_INFINITY,) * 2))
    assert "memory: its limit is 1.0 GiB" in str(lacks_resource(Failure(Kind.OOM)))
