"""The queries that a server is to answer: which is sent next, and which is asked again. No process is touched here."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.probe.repro_probe.protocol.queries import Query, Reply

_MOST = 2  # times that a query is sent, if its end says nothing about it


@dataclass
class _Entry:
    """A query and its history."""

    index: int
    query: Query
    sent: int = 0
    beside_others: bool = False  # it has run at the same time as another query
    alone: bool = False  # it must run while no other query does


class QueryQueue:
    """Queries in the order in which they are sent, with at most `jobs` of them under way.

    A query that was under way when the server died is sent once more, and so is one that was killed from outside. A
    query that ran out of an accelerator's memory beside others is asked again with the device for itself.
    """

    def __init__(self, queries: Sequence[Query], jobs: int) -> None:
        self._jobs = jobs
        self._waiting = deque(_Entry(index, query) for index, query in enumerate(queries))
        self._running: dict[int, _Entry] = {}

    @property
    def is_done(self) -> bool:
        """Whether every query has ended."""
        return not self._waiting and not self._running

    @property
    def running(self) -> list[Query]:
        """The queries that were sent, and have not ended."""
        return [entry.query for entry in self._running.values()]

    def next_to_send(self) -> Query | None:
        """The query that is sent next; None while no further one may run."""
        if not self._waiting or len(self._running) >= self._jobs:
            return None
        first = self._waiting[0]
        if self._running and any(entry.alone for entry in (first, *self._running.values())):
            return None
        return first.query

    def start(self) -> None:
        """Count the query that `next_to_send` gave as sent."""
        entry = self._waiting.popleft()
        entry.sent += 1
        self._running[entry.query["id"]] = entry
        if len(self._running) > 1:
            for each in self._running.values():
                each.beside_others = True

    def answered(self, reply: Reply) -> int | None:
        """End the query that `reply` answers. Return its index, or None if the reply is no answer.

        It is none if the query is asked again, or is not under way, such as a cancelled one.
        """
        entry = self._running.pop(reply["id"], None)
        if entry is None:
            return None
        if reply.get("signal") == "SIGKILL" and entry.sent < _MOST:  # such as by the system when memory is short
            self._waiting.appendleft(entry)
            return None
        if entry.beside_others and not entry.alone and _lacked_device_memory(reply):
            entry.alone = True
            self._waiting.appendleft(entry)
            return None
        return entry.index

    def server_died(self) -> list[int]:
        """Put the queries that were under way first again. Return the indexes of those that are given up."""
        lost = list(self._running.values())
        self._running.clear()
        self._waiting.extendleft(entry for entry in reversed(lost) if entry.sent < _MOST)
        return [entry.index for entry in lost if entry.sent >= _MOST]


def _lacked_device_memory(reply: Reply) -> bool:
    """Whether torch's allocator of an accelerator had too little memory (c10::OutOfMemoryError)."""
    return any(str(link.get("type")).endswith("OutOfMemoryError") for link in reply.get("exceptions") or [])
