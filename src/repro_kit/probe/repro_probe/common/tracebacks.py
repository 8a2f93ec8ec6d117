"""Exceptions and stacks as JSON data, the stack of a process that is about to be ended, and whose code a frame is."""

from __future__ import annotations

import ctypes
import faulthandler
import linecache
import os
import re
import signal
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

from repro_probe.protocol.failure_data import STACK_SIGNAL, FrameData, LinkData

_TIMERS = [getattr(signal, name) for name in ("SIGALRM", "SIGVTALRM", "SIGPROF") if hasattr(signal, name)]
_FAULT_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)$')


def describe_exception(error: BaseException | None) -> list[LinkData]:
    """Return the chain of `error` as a list: the outermost exception is first, and the root cause is last.

    Each entry has the type (qualified, but for builtins), the whole message, and the exception's own frames, outermost
    first.
    """
    return [
        {"type": _type_name(link), "message": _message(link), "frames": _frames_of(link.__traceback__)}
        for link in _chain(error)
    ]


def interrupted_frames(error: BaseException) -> list[FrameData]:
    """Return the frames, outermost first, that a timer's signal interrupted whose handler raised `error`; else [].

    Python calls a handler with the number of the signal and the frame that was interrupted, which is the frame before
    the handler's in the traceback.
    """
    for link in _chain(error):
        before, trace = None, link.__traceback__
        while trace is not None:
            if before is not None and _is_handler(trace.tb_frame, before.tb_frame):
                return _frames_of(link.__traceback__, trace)
            before, trace = trace, trace.tb_next
    return []


def _is_handler(frame: FrameType, interrupted: FrameType) -> bool:
    code = frame.f_code
    values = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    pairs = zip(values, values[1:])
    return any(isinstance(number, int) and number in _TIMERS and given is interrupted for number, given in pairs)


def _chain(error: BaseException | None) -> list[BaseException]:
    links: list[BaseException] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        links.append(error)
        error = _cause(error)
    return links


def _cause(error: BaseException) -> BaseException | None:
    """Return the explicit cause of `error`, else the error of the compiler that it hides, else `inner_exception`.

    An exception that was only being handled is no cause. The same rule reads tracebacks in text
    (`failure/tracebacks.py`, `chains`), so that both give one signature.
    """
    if error.__cause__ is not None:
        return error.__cause__
    context = error.__context__
    if context is not None and not error.__suppress_context__ and _hides(error, context):
        return context
    inner = getattr(error, "inner_exception", None)
    return inner if isinstance(inner, BaseException) else None


def _hides(newer: BaseException, older: BaseException) -> bool:
    """Whether the user's code raised `newer` in the place of an error of the compiler."""
    compilers = ("torch._dynamo.", "torch._inductor.")
    return _type_name(older).startswith(compilers) and not _type_name(newer).startswith("torch.")


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as problem:  # the user's __str__ is broken, or ends the program: only that can be shown
        return f"<message not printable: {type(problem).__name__}>"


def _frames_of(trace: TracebackType | None, until: TracebackType | None = None) -> list[FrameData]:
    """Return the frames of `trace`, without those from `until` on."""
    frames = []
    while trace is not None and trace is not until:
        code = trace.tb_frame.f_code
        frames.append(_frame(code.co_filename, trace.tb_lineno, code.co_name, trace.tb_frame.f_globals))
        trace = trace.tb_next
    return frames


def _frame(file: str, line: int | None, function: str, module_globals: dict[str, Any] | None = None) -> FrameData:
    code = linecache.getline(file, line, module_globals).strip() if line else ""
    return {"file": file, "line": line or 0, "function": function, "code": code}


def describe_fault(text: str) -> list[FrameData]:
    """Return the frames, outermost first, of the thread that crashed, from `text` written by faulthandler.

    At a time-out no thread has crashed. Then the frames are those of the main thread, which faulthandler writes last.
    """
    threads: list[tuple[bool, list[FrameData]]] = []
    for line in text.splitlines():
        if line.startswith(("Current thread ", "Thread ", "Stack (most recent")):
            threads.append((line.startswith("Current"), []))
            continue
        match = _FAULT_FRAME.match(line)
        if match and threads:
            number = int(match["line"]) if match["line"].isdigit() else 0
            threads[-1][1].append(_frame(match["file"], number, match["function"]))
    stacks = [frames for current, frames in threads if current and frames] or [f for _, f in threads if f]
    return stacks[-1][::-1] if stacks else []


_WRITTEN = 0.2  # seconds in which a stack is surely written
_MONOTONIC, _TO_THREAD = 1, 4  # CLOCK_MONOTONIC and SIGEV_THREAD_ID of Linux


class _Event(ctypes.Structure):
    """The beginning of ``struct sigevent``, which has 64 bytes."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


class _Times(ctypes.Structure):
    """``struct itimerspec``."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every", "every_ns", "seconds", "nanoseconds"))


class _Dump:
    """What is to be written where: the descriptor, and the timer and its process."""

    file = -1
    timer: tuple[int, Any] | None = None


def dump_at(when: float, file: int) -> None:
    """Write the Python stack of the main thread to descriptor `file` at time `when`, in seconds since the epoch.

    The signal of a timer makes the main thread write its own stack. `faulthandler.dump_traceback_later` would read
    the frames of a running thread, which sometimes crashes the process or finds no frame, and would be a second
    thread. A program sees neither the signal, which nobody uses, nor the timer (POSIX's `timer_create`). Its alarms
    stay its own, and the timer is gone when the process runs another program.
    """
    _Dump.file = file
    seconds = max(0.01, when - time.time())
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, file=file, all_threads=False)
    if STACK_SIGNAL is None or not _start_timer(seconds, STACK_SIGNAL):
        faulthandler.dump_traceback_later(seconds, file=file)


def dump_now() -> None:
    """Write the stack that `dump_at` would write later. Where that writes none, nothing is done."""
    if _Dump.file == -1:
        return
    if STACK_SIGNAL is None:
        faulthandler.dump_traceback(_Dump.file)
        return
    signal.pthread_kill(threading.main_thread().ident or 0, STACK_SIGNAL)
    time.sleep(_WRITTEN)


def _start_timer(seconds: float, number: int) -> bool:
    """Let a timer send the signal to the main thread, and return whether the system has such timers."""
    system = ctypes.CDLL(None)
    try:
        create, settime, delete = system.timer_create, system.timer_settime, system.timer_delete
    except AttributeError:  # an older C library has them elsewhere
        return False
    main = os.getpid()  # the number of a process is that of its main thread
    if _Dump.timer is not None and _Dump.timer[0] == main:
        delete(_Dump.timer[1])
    timer = ctypes.c_void_p()
    event = _Event(signal=number, notify=_TO_THREAD, thread=main)
    if create(_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)) != 0:
        return False
    _Dump.timer = main, timer
    times = _Times(seconds=int(seconds), nanoseconds=int(seconds % 1 * 1e9))
    return bool(settime(timer, 0, ctypes.byref(times), None) == 0)


_PROBE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def own_packages() -> tuple[str, ...]:
    """Return the directories of the probe, and of repro-kit where this process imported it (its plugin of pytest).

    An editable install keeps repro-kit outside of site-packages, in a directory that looks like one of the user's.
    """
    file = getattr(sys.modules.get("repro_kit"), "__file__", None)
    return (_PROBE, os.path.dirname(os.path.abspath(file))) if file else (_PROBE,)
