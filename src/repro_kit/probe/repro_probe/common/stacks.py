"""Write the stack of a process shortly before the process is ended from outside."""

from __future__ import annotations

import faulthandler
import signal
import time
from typing import TextIO


def dump_at(when: float, file: TextIO) -> None:
    """Write the Python stack of the main thread to `file` at time `when`, in seconds since the epoch.

    The signal of a timer makes the thread write its own stack. `faulthandler.dump_traceback_later` would read the
    frames of a running thread, which sometimes crashes the process or finds no frame. A program that uses the timer or
    the signal itself keeps them, and no stack is written.
    """
    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL)[0] == 0:
        faulthandler.register(signal.SIGALRM, file=file, all_threads=False)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, when - time.time()))
