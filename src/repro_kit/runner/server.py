"""The server process (`repro_probe.server.zygote`) in the user's interpreter, and the queue of its queries."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from repro_kit.errors import CannotRunError, ReproKitError, StageError, UsageError
from repro_kit.failure.missing import lacks, remedy
from repro_kit.files import link_or_copy
from repro_kit.probe.repro_probe.protocol.queries import Message, Query, Reply
from repro_kit.runner import write_orders
from repro_kit.runner.places import Scratch, temporary_variables
from repro_kit.runner.supervised import SupervisedCommand, SupervisorDied, with_probe
from repro_kit.serialize import loads

_STOP = 10.0

#: Variables that would silently override the settings that a query makes, or that would make every query write to the
#: traces of the user's run.
_UNWANTED = (
    *("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCH_COMPILE_FORCE_DISABLE_CACHES"),
    *("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"),
    *("TORCH_TRACE", "TORCH_DTRACE", "TORCH_COMPILE_DEBUG", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"),
    *("TORCHDYNAMO_REPRO_AFTER", "TORCHDYNAMO_REPRO_LEVEL", "TORCH_BISECT_BACKEND", "TORCH_BISECT_SUBSYSTEM"),
)


#: The line of `repro_probe.server.warm` that imports torch, in the traceback of a server that ended in it.
_IMPORTS = re.compile(r"^\s+import torch(?:\.|$)", re.MULTILINE)


class ServerDied(Exception):
    """The server ended or stopped answering. The message is the end of its stderr."""


class ServerSilent(ServerDied):
    """The server did not answer in time, and was ended."""


class ServerProcess:
    """A server that starts with the first request.

    The server gets this process's environment and `variables`. Set `variables` while the server is stopped.
    """

    def __init__(
        self,
        python: str,
        *,
        how: Literal["fork", "spawn"],
        cache: Path | None = None,
        start_seconds: float = 300.0,
    ) -> None:
        """Take `start_seconds` as the time that importing torch may take on a busy machine."""
        self.variables: dict[str, str] = {}
        self._start_seconds = start_seconds
        self._python = python
        self._how = how
        self._env = dict(os.environ)
        self._cache = cache
        self._supervised: SupervisedCommand | None = None
        self._is_ready = False
        self._scratch: Scratch | None = None
        self._unread = b""
        self._libraries: Path | None = None

    def send(self, message: Message) -> None:
        """Send a message, after starting the server if it is not running.

        Raises ServerDied, and ReproKitError when the server cannot be started.
        """
        if not (self._supervised and self._is_ready) and ("cancel" in message or "expire" in message):
            return  # it has no request yet, and whoever cancels one does not wait until it is ready
        if self._supervised is None:
            self.begin()
        if not self._is_ready:
            self._wait_until_ready()
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise self._death() from None

    def receive(self, timeout: float) -> Reply:
        """Return the next reply. Raises ServerDied when the server ends, and ServerSilent after `timeout` seconds."""
        process = self._running()
        assert process.stdout is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._unread:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ServerSilent(str(self._death()))
            data = os.read(process.stdout.fileno(), 1 << 20)
            if not data:
                raise self._death()
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        reply: Reply = loads(line)
        return reply

    def is_readable(self, seconds: float) -> bool:
        """Whether `receive` has something to read within `seconds`."""
        process = self._running()
        assert process.stdout is not None
        return b"\n" in self._unread or bool(select.select([process.stdout], [], [], max(0.0, seconds))[0])

    def stop(self) -> None:
        """End the server. The server kills its children and removes their directories when its stdin closes.

        One that is not ready yet would not notice that before torch is imported, and has no children.
        """
        self._end(_STOP if self._is_ready else 0.0)

    def _end(self, patience: float) -> None:
        if self._supervised is None:
            return
        supervised, self._supervised = self._supervised, None
        assert supervised.process.stdin is not None and supervised.process.stdout is not None
        with suppress(OSError):
            supervised.process.stdin.close()
        try:
            supervised.wait(patience)
        finally:
            supervised.end()
            supervised.process.stdout.close()
            self._unread = b""
            if self._scratch is not None:
                self._scratch.remove()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._supervised is None:
            raise ServerDied("the server is not running")
        return self._supervised.process

    def begin(self) -> None:
        """Start the server if it is not running, and do not wait until it is ready."""
        if self._supervised is not None:
            return
        self._is_ready = False
        self._scratch = Scratch()
        self._give_libraries()
        if self._cache is not None:
            self._cache.mkdir(parents=True, exist_ok=True)
        with (self._scratch.path / "server.txt").open("wb") as err:
            self._supervised = SupervisedCommand(
                [self._python, "-m", "repro_probe.server.zygote", str(self._scratch.path), self._how],
                env=self.environment(),
                cwd=self._scratch.path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
            )

    def share(self, libraries: Path) -> None:
        """Let queries take the libraries of a directory in place of building those with the same names."""
        self._libraries = libraries
        if self._supervised is not None:
            self._give_libraries()

    def _give_libraries(self) -> None:
        assert self._scratch is not None
        for library in self._libraries.glob("*.so") if self._libraries else ():
            link_or_copy(library, self._scratch.path / "libraries" / library.name)

    def _wait_until_ready(self) -> None:
        supervised = self._supervised
        assert supervised is not None
        try:
            self.receive(self._start_seconds)
            self._is_ready = True
        except ServerSilent:
            raise StageError(
                f"{self._python} did not import torch within {self._start_seconds:.0f} s; "
                "run the command again when the machine is less busy."
            ) from None
        except ServerDied as died:
            raise self._cannot_start(supervised, str(died)) from None

    def environment(self) -> dict[str, str]:
        """The variables that the server is started with."""
        users = {name: value for name, value in write_orders.without(self._env).items() if name not in _UNWANTED}
        env = with_probe(users | temporary_variables() | self.variables)
        if self._cache is not None:
            env["TORCHINDUCTOR_CACHE_DIR"] = str(self._cache.resolve())
        # With one thread, torch compiles in the main thread: stacks show where, and no worker pool is left behind.
        env.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        return env

    def _death(self) -> ServerDied:
        text = ""
        if self._scratch is not None:
            with suppress(OSError):
                text = (self._scratch.path / "server.txt").read_text(errors="replace")[-4000:].strip()
        self._end(_STOP)  # how it ended is part of the message
        return ServerDied(text or "the server ended without a message")

    def _cannot_start(self, supervised: SupervisedCommand, text: str) -> ReproKitError:
        try:
            supervised.report()
        except OSError as error:
            return UsageError(f"Cannot start {self._python}: {error.strerror}; name an interpreter that has torch.")
        except SupervisorDied as died:
            return StageError(f"{self._python} could not import torch: {died}; run it again.")
        last = text.rsplit("\n", 1)[-1]
        if last.startswith("ModuleNotFoundError") and "'torch'" in last:
            return UsageError(f"{self._python} has no torch; name the interpreter that runs the failing script.")
        if re.search(r"\btorch\.", last) and last.startswith(("ModuleNotFoundError", "ImportError", "AttributeError")):
            return UsageError(f"The torch of {self._python} is too old for repro-kit ({last}); upgrade it.")
        if lacking := lacks(last):
            return CannotRunError(f"This machine lacks {lacking} ({last}). {remedy(lacking)}, and try again.")
        if _IMPORTS.search(text) or last.startswith("ImportError"):
            return StageError(f"{self._python} cannot import torch ({last}); repair that installation.")
        return StageError(f"The server of programs in {self._python} ended before its first program ({last}).")


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
