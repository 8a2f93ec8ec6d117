"""Run units on this machine. Anything with the same `submit` may take its place: `done()` and `result()` are asked."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol


class Submitted(Protocol):
    """A unit that was submitted."""

    def done(self) -> bool:
        """Whether it has ended."""
        ...

    def result(self) -> Any:
        """What it returned. Raises what it raised."""
        ...


class Executor(Protocol):
    """Runs functions somewhere. Their arguments are paths that the workers see."""

    def submit(self, function: Callable[..., Any], /, *arguments: str) -> Submitted:
        """Run ``function(*arguments)`` some time."""
        ...


class LocalExecutor:
    """Runs units in threads of this process. They wait for child processes, which end when this process ends.

    The threads are daemons, unlike those of `concurrent.futures`: Ctrl-C must not wait for running units.
    """

    def __init__(self, workers: int) -> None:
        self._queue: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[str, ...]]] = queue.SimpleQueue()
        for number in range(workers):
            threading.Thread(target=self._work, name=f"unit {number}", daemon=True).start()

    def submit(self, function: Callable[..., Any], /, *arguments: str) -> Future[Any]:
        """Run the function in the next thread that is free."""
        future: Future[Any] = Future()
        self._queue.put((future, function, arguments))
        return future

    def _work(self) -> None:
        while True:
            future, function, arguments = self._queue.get()
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # `result` raises it where it is asked for
                future.set_exception(error)
