"""Write the stack of a process shortly before the process is ended from outside."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import threading
import time
from typing import Any

from repro_probe.protocol.signal_names import STACK_SIGNAL

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
