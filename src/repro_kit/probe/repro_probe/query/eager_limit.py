"""Limit the time of eager: a candidate that has lost the end of a loop would use up the time of a whole query."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

SHARE = 0.2  # of the time of a query that is left, in which eager and a compile must end
LEAST = 5.0  # seconds


@contextlib.contextmanager
def eager_limit(ends: float) -> Iterator[None]:
    """Raise TimeoutError in the block once this process has computed for a share of the time that is left until `ends`.

    `ends` is in seconds since the epoch. CPU time of this thread is counted, so that a busy machine is no reason.
    """
    if not hasattr(signal, "SIGVTALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds, began = max(LEAST, SHARE * (ends - time.time())), time.thread_time()

    def stop(number: int, frame: object) -> None:
        if time.thread_time() - began >= seconds:
            raise TimeoutError(f"eager has not ended after {seconds:.0f} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, LEAST / 4)  # of all threads together
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
