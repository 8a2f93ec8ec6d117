"""The chain of an exception is the same, whether the probe describes it or its traceback is read as text."""

import signal
import sys
import time
import traceback
from collections.abc import Callable
from types import FrameType

import pytest

from repro_kit.failure.tracebacks import chains
from repro_probe.common.tracebacks import describe_exception, interrupted_frames


class Unsupported(Exception):
    __module__ = "torch._dynamo.exc"


class ObservedKeyError(Exception):
    __module__ = "torch._dynamo.exc"


def a_cause_without_frames() -> None:
    raise Unsupported("no handler\n\nfrom user code") from ObservedKeyError("raised exception KeyError('z')")


def handled_before() -> None:
    try:
        raise ObservedKeyError("missing")
    except ObservedKeyError:
        raise Unsupported("another thing")  # noqa: B904 - the implicit context is the subject


def hidden_by_the_user() -> None:
    try:
        raise Unsupported("the compiler's error")
    except Unsupported:
        raise RuntimeError("the model does not compile")  # noqa: B904 - as above


def of_the_user_alone() -> None:
    try:
        raise KeyError("first")
    except KeyError:
        raise ValueError("second")  # noqa: B904 - as above


@pytest.mark.parametrize(
    ("raises", "types"),
    [
        (a_cause_without_frames, ["torch._dynamo.exc.Unsupported", "torch._dynamo.exc.ObservedKeyError"]),
        (handled_before, ["torch._dynamo.exc.Unsupported"]),
        (hidden_by_the_user, ["RuntimeError", "torch._dynamo.exc.Unsupported"]),
        (of_the_user_alone, ["ValueError"]),
    ],
)
def test_both_readings_give_one_chain(raises: Callable[[], None], types: list[str]) -> None:
    try:
        raises()
    except Exception as error:
        described = describe_exception(error)
        text = traceback.format_exc()
    (chain,) = chains("printed before: 1\n" + text)
    assert [link["type"] for link in described] == types
    assert [link.type for link in chain] == types
    assert [link.message for link in chain] == [link["message"].strip() for link in described]


def test_an_exception_that_python_ignores_ends_nothing() -> None:
    ignored = """Exception ignored in: <finalize object at 0x7f; dead>
Traceback (most recent call last):
  File "/lib/python3.11/weakref.py", line 590, in __call__
    return info.func(*info.args, **(info.kwargs or {}))
TypeError: 'NoneType' object is not callable
"""
    raised = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nKeyError: 3\n'
    assert chains(ignored) == []
    assert [chain[0].type for chain in chains(raised + ignored)] == ["KeyError"]


class Guard:
    def stop(self, number: int, frame: FrameType | None) -> None:
        self.late()

    def late(self) -> None:
        raise TimeoutError("late")


def waits() -> None:
    time.sleep(60)


def raised_by(function: Callable[[], None]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def alarmed() -> None:
    before = signal.signal(signal.SIGALRM, Guard().stop)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        waits()
    except TimeoutError as error:
        raise Unsupported("wrapped") from error
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="this system has no alarms")
def test_what_an_alarm_interrupted_is_told_without_its_handler() -> None:
    frames = interrupted_frames(raised_by(alarmed))
    assert [frame["function"] for frame in frames] == ["alarmed", "waits"]


def test_an_exception_that_no_alarm_raised_interrupted_nothing() -> None:
    def called() -> None:
        Guard().stop(1, sys._getframe())  # as a handler is called, and with a signal of no timer

    assert interrupted_frames(raised_by(called)) == []
    assert interrupted_frames(raised_by(a_cause_without_frames)) == []
