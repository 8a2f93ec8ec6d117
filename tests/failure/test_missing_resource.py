"""What a machine lacks shows in messages, whoever raises them."""

import pytest

from repro_kit.bundle.repro.check_program import read_run
from repro_kit.failure.classify import classify_reply
from repro_kit.failure.exception_origin import Nature, nature_of
from repro_kit.failure.failure import ExceptionLink, Failure, Frame, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.missing import COMPILER, missing_resource, refused_by_compiler, remedy

INDUCTOR = Frame("/venv/lib/python3.11/site-packages/torch/_inductor/graph.py", 10, "run", "")
FORK = Frame("/usr/lib/python3.11/subprocess.py", 1951, "_execute_child", "")
COMPILE = "C++ compile error\n\nCommand:\n{0}\n\nOutput:\n{1}"


def raised(kind: str, message: str, frame: Frame = INDUCTOR) -> Failure:
    return Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink(kind, message, (frame,)),))


@pytest.mark.parametrize(
    ("kind", "message", "lacking"),
    [
        ("torch._inductor.exc.InductorError", "InvalidCxxCompiler: No working C++ compiler found in …", COMPILER),
        ("torch._inductor.exc.InvalidCxxCompiler", "", COMPILER),
        ("CppCompileError", "g++: fatal error: cannot execute ‘cc1plus’: execvp: No such file", COMPILER),
        ("CppCompileError", "a.cpp:1:10: fatal error: Python.h: No such file or directory", "the headers of Python"),
        ("CppCompileError", "a.cpp:1:10: fatal error: 'omp.h' file not found", "the headers of OpenMP"),
        ("OSError", "[Errno 28] No space left on device: '/tmp/x'", "space on the disk"),
        ("CppCompileError", "/tmp/cc.s: fatal error: error writing to x: No space left on device", "space on the disk"),
        ("OSError", "[Errno 122] Disk quota exceeded", "space on the disk"),
        ("OSError", "[Errno 24] Too many open files", "file descriptors"),
        ("OSError", "[Errno 12] Cannot allocate memory", "memory"),
        ("CppCompileError", "g++: fatal error: Killed signal terminated program cc1plus", "memory"),
        ("CppCompileError", "c++: internal compiler error: Killed (program cc1plus)", "memory"),
        ("OSError", "/x/k.so: failed to map segment from shared object: Cannot allocate memory", "memory"),
        ("OSError", "/x/k.so: failed to map segment from shared object", "a directory for temporary files"),
        ("OSError", "[Errno 27] File too large", "room for a file of that size"),
        ("CppCompileError", "/usr/bin/ld: final link failed: File too large", "room for a file of that size"),
        ("RuntimeError", "can't start new thread", "room for another process"),
        ("CppCompileError", "g++: fatal error: fork: Resource temporarily unavailable", "room for another process"),
    ],
)
def test_what_is_lacking_is_told(kind: str, message: str, lacking: str) -> None:
    failure = raised(kind, message)
    assert missing_resource(failure).startswith(lacking) and remedy(missing_resource(failure))
    assert nature_of(failure) is Nature.MACHINE


def test_a_process_that_cannot_start_is_told_from_a_socket_that_would_block() -> None:
    message = "[Errno 11] Resource temporarily unavailable"
    assert missing_resource(raised("BlockingIOError", message, FORK)) == "room for another process"
    assert missing_resource(raised("BlockingIOError", message)) == ""


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("CppCompileError", COMPILE.format("g++ /tmp/x/k.cpp -o k.so", "k.cpp:3:5: error: ‘y’ was not declared")),
        ("RuntimeError", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. Error code 12"),
        ("torch._inductor.exc.InductorError", "LoweringException: No such lowering"),
    ],
)
def test_what_may_be_the_compilers_is_not(kind: str, message: str) -> None:
    assert missing_resource(raised(kind, message)) == ""


def test_the_compiler_of_a_refused_kernel() -> None:
    assert refused_by_compiler(raised("InductorError", f"CppCompileError: {COMPILE.format('/opt/g++ a', 'x')}")) == (
        "/opt/g++",
        "a",
    )
    assert refused_by_compiler(raised("InductorError", "Command:\ng++")) == ()


def test_a_program_and_a_repro_judge_nothing_on_such_a_machine() -> None:
    link = {"type": "torch._inductor.exc.InvalidCxxCompiler", "message": "No working C++ compiler found", "frames": []}
    verdict = classify_reply({"status": "fail", "exceptions": [link]})  # type: ignore[typeddict-item]
    assert (verdict.status, verdict.note) == (Status.CANNOT_TELL, f"this machine lacks {COMPILER}")
    output = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nOSError: [Errno 28] No space left on device\n'
    )
    verdict = read_run(1, output, "")
    assert (verdict.status, verdict.note) == (Status.CANNOT_TELL, "this machine lacks space on the disk")
