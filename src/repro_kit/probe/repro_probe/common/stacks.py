"""Write the stack of a process shortly before the process is ended from outside."""

from __future__ import annotations

import faulthandler
import signal
import threading
import time
from typing import TextIO

_WRITTEN = 0.2  # seconds in which a stack is surely written


def dump_at(when: float, file: TextIO) -> None:
    """Write the Python stack of the main thread to `file` at time `when`, in seconds since the epoch.

    The signal of a timer makes the thread write its own stack. `faulthandler.dump_traceback_later` would read the
    frames of a running thread, which sometimes crashes the process or finds no frame. A program that uses the timer or
    the signal itself keeps them, and no stack is written.
    """
    if _is_free() and signal.getitimer(signal.ITIMER_REAL)[0] == 0:
        faulthandler.register(signal.SIGALRM, file=file, all_threads=False)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, when - time.time()))


def dump_now() -> None:
    """Write the stack that `dump_at` would write later. Where that writes none, nothing is done."""
    if _is_free() and signal.getitimer(signal.ITIMER_REAL)[0] > 0:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        time.sleep(_WRITTEN)


def _is_free() -> bool:
    """Whether no Python code handles the signal. A handler of faulthandler's does not count."""
    return signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
