"""What a failure tells by itself of whose it is."""

import pytest

from repro_kit.failure.exception_origin import Nature, nature_of
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind

INDUCTOR = Frame("/venv/lib/python3.11/site-packages/torch/_inductor/graph.py", 10, "run", "")
USER = Frame("/home/me/train.py", 5, "<module>", "")
ATTENTION = Frame("/venv/lib/python3.11/site-packages/torch/nn/attention/flex_attention.py", 20, "_validate", "")
TESTING = Frame("/venv/lib/python3.11/site-packages/torch/testing/_comparison.py", 100, "error", "")


def failure(kind: str, message: str = "", *frames: Frame) -> Failure:
    return Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink(kind, message, frames or (USER,)),))


@pytest.mark.parametrize(
    ("seen", "nature"),
    [
        (failure("RuntimeError", "boom", USER, INDUCTOR), Nature.COMPILER),
        (failure("torch._inductor.exc.InductorError", "boom"), Nature.COMPILER),
        (failure("AssertionError", "Tensor-likes are not close!", USER, TESTING), Nature.COMPARISON),
        (failure("ValueError", "mismatch"), Nature.OPEN),
        (failure("RuntimeError", "SLA missed: step took too long"), Nature.TIME),
        (failure("AssertionError", "p99 is 312 ms"), Nature.TIME),
        (failure("OSError", "[Errno 28] No space left on device"), Nature.MACHINE),
        (failure("RuntimeError", "[Errno 28] No space left on device", USER, INDUCTOR), Nature.MACHINE),
        (failure("OSError", "[Errno 27] File too large", USER, INDUCTOR), Nature.MACHINE),
        (failure("CppCompileError", "g++: fatal error: Killed signal terminated program cc1plus"), Nature.MACHINE),
        (failure("requests.exceptions.ConnectionError", "refused"), Nature.MACHINE),
        (Failure(Kind.RUNTIME_ERROR, exit_status=137), Nature.MACHINE),
        (Failure(Kind.CRASH, signal="SIGTERM"), Nature.MACHINE),
    ],
)
def test_the_nature_of_a_failure(seen: Failure, nature: Nature) -> None:
    assert nature_of(seen) is nature


def test_what_the_probe_saw_counts() -> None:
    plain = failure("ValueError", "no")
    assert nature_of(plain, machine=True) is Nature.MACHINE
    assert nature_of(plain, compares=True) is Nature.COMPARISON
    assert nature_of(plain, compares=True, clock=True) is Nature.TIME


def test_a_check_of_arguments_in_torch_compares_no_result() -> None:
    refused = failure("NotImplementedError", "no backward on CPU", USER, ATTENTION)
    assert nature_of(refused, compares=True) is Nature.OPEN
    assert nature_of(failure("AssertionError", "no", USER, TESTING), compares=True) is Nature.COMPARISON
