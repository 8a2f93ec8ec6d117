"""Write down where a process is, shortly before it is ended from outside."""

from __future__ import annotations

import faulthandler
import signal
import time
from typing import TextIO


def dump_at(when: float, file: TextIO) -> None:
    """Have the Python stack of the main thread written to `file` at time `when`, in seconds since the epoch.

    A timer's signal makes the thread itself do it: `faulthandler.dump_traceback_later` reads the frames of a thread
    that goes on running, which now and then crashes the process or finds nothing. A program that uses the timer or the
    signal keeps them, and leaves no stack.
    """
    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL)[0] == 0:
        faulthandler.register(signal.SIGALRM, file=file, all_threads=False)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, when - time.time()))
