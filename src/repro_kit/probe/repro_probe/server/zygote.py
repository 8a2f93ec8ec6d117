"""A process that has imported torch and forks a child for each query. Requests and replies are lines of JSON.

Forking is safe because this process runs no parallel operator, starts no thread and uses no accelerator; whether its
children can use the accelerator is tried before the first query. Each child has its own session, directory and limits,
and none of this process's descriptors. Before a reply is sent, all processes that the child started are killed and its
directory is removed.

``python -m repro_probe.server.zygote SCRATCH [spawn]``: SCRATCH is the directory for the children's files, and is
removed at the end. With ``spawn`` nothing is imported here, and each query gets a fresh interpreter. So does each query
where forked children cannot use the accelerator.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import selectors
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Union, cast

from repro_probe.change import subsystems
from repro_probe.common.tracebacks import describe_fault
from repro_probe.protocol.failure_data import signal_name
from repro_probe.protocol.queries import Query, QueryAnswer, QueryPhase, Reply, ServerReady
from repro_probe.run.process_group import child_processes
from repro_probe.server.children import Fork, ParentGone, Spawn, end_with_parent, write_all
from repro_probe.server.warm import accelerator_left_alone, ask_child, import_for, import_torch

_PR_SET_CHILD_SUBREAPER = 36


def adopt_strays() -> None:
    """Become the parent of every descendant that loses its parent, such as a daemon (Linux only)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_strays(spared: Iterable[int], directory: str | None = None) -> None:
    """End adopted processes: all children of this process but `spared`, with `directory` only those that work there.

    Ending one may bring its children, which are ended in turn.
    """
    spared = set(spared)
    while True:
        strays = [pid for pid in child_processes(spared) or () if directory is None or _works_in(pid, directory)]
        if not strays:
            return
        for pid in strays:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:  # the process belongs to another user, for example
                spared.add(pid)


def _works_in(pid: int, directory: str) -> bool:
    """Whether its directory or its environment names `directory`; one that has ended has neither, and is reaped."""
    path = directory.encode()
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd".encode())
        with open(f"/proc/{pid}/environ", "rb") as file:
            return cwd == path or cwd.startswith(path + b"/") or path + b"/" in file.read()
    except OSError:
        return True


Start = Union[Fork, Spawn]

_TAIL = 20000  # bytes of stderr in a reply
_GRACE = 10.0  # seconds that a child may take to exit after its reply
_LONGEST = 64 << 20  # bytes of the longest line that a child reports; a longer line is from the program


class Child:
    """One running query. `private` are descriptors of this process that the child must not have."""

    def __init__(self, request: Query, scratch: str, start: Start, private: Sequence[int]) -> None:
        self.request = request
        self.scratch = os.path.join(scratch, f"query-{request['id']}")
        os.makedirs(self.scratch)
        self.started = time.monotonic()
        self.deadline = self.started + request["timeout"]
        self.phase: QueryPhase | None = None
        self.reply: QueryAnswer | None = None
        self.timed_out = False
        self.stuck = False  # the query said that its ranks wait for each other
        self._unread = bytearray()
        self.pipe, write_end = os.pipe()
        os.set_blocking(self.pipe, False)
        ends = time.time() + request["timeout"]
        self.process = start({**request, "scratch": self.scratch, "ends": ends}, write_end, [*private, self.pipe])
        os.close(write_end)

    def read(self) -> bool:
        """Read a piece of the child's report. Return False when there is none at present, or at the end."""
        try:
            data = os.read(self.pipe, 1 << 16)
        except BlockingIOError:
            return False
        self._unread += data
        if b"\n" in data:
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                self._take(bytes(line))
        elif len(self._unread) > _LONGEST:
            self._unread.clear()
        return bool(data)

    def _take(self, line: bytes) -> None:
        """Take a phase or the reply from a line. Other lines, which the program can write too, are ignored."""
        with contextlib.suppress(ValueError, RecursionError):
            report = json.loads(line)
            if isinstance(report, dict):
                self.phase = report.get("phase", self.phase)
                if report.get("stuck"):
                    self.stuck = True
                    self.deadline = 0.0
                if isinstance(report.get("reply"), dict):
                    self.reply = report["reply"]
                    self.deadline = min(self.deadline, time.monotonic() + _GRACE)

    def kill(self) -> None:
        """Kill the child and its process group."""
        for kill in (os.killpg, os.kill):  # a child that was just forked has no group yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.process.pid, signal.SIGKILL)

    def finish(self) -> Reply:
        """Wait for the child's end, clean up, and return the whole reply."""
        code = self.process.wait()
        while self.read():
            pass
        os.close(self.pipe)
        died_of = signal_name(-code) if code < 0 and not self.timed_out else None
        text, fault = (_tail(os.path.join(self.scratch, name)) for name in ("stderr.txt", "fault.txt"))
        reply = judge_end(self, died_of, text, fault)
        if self.request.get("switch") is not None:
            reply["applied"] = subsystems.read_applications(self.scratch) or []
        shutil.rmtree(self.scratch, ignore_errors=True)
        return {"id": self.request["id"], "seconds": round(time.monotonic() - self.started, 4), **reply}


def judge_end(child: Child, signal_name: str | None, text: str, fault: str) -> Reply:
    """Return the reply for a child that ended with an answer, by a signal, at its time-out, or without an answer."""
    reply = child.reply
    if (child.timed_out and reply is None) or (
        signal_name and (reply is None or reply.get("status") in (None, "pass"))
    ):
        before = child.request["mode"] != "check" or (reply is None and child.phase in (None, "load", "eager"))
        ended: Reply = {
            "status": "invalid" if before else "fail",
            "phase": child.phase if reply is None else "exit",
            "text": (text + "\n" + fault).strip(),
            "stack": describe_fault(fault),
        }
        if child.timed_out:
            return {**ended, "timed_out": True, "stuck": child.stuck}
        return {**ended, "signal": signal_name}
    if reply is None:
        return {"status": "infra", "phase": child.phase, "text": text or "the query ended without a reply"}
    whole: Reply = {**cast(Reply, reply), "text": text}
    return whole


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


class Server:
    """The main loop: reads requests, starts children, and replies when they end."""

    def __init__(self, scratch: str, channel: int, choose: Callable[[], Start]) -> None:
        """Take `choose` to choose how children start, with the first request."""
        self.scratch = scratch
        self.channel = channel
        self.choose = choose
        self.children: dict[int, Child] = {}  # by id of the request
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ)
        self._unread = b""
        self._wake = os.pipe()  # readable when a child has exited
        self._listen_for_exits()

    @functools.cached_property
    def start(self) -> Start:
        """How children start."""
        return self.choose()

    def _listen_for_exits(self) -> None:
        for descriptor in self._wake:
            os.set_blocking(descriptor, False)
        self.selector.register(self._wake[0], selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Say that the server is ready, and serve until stdin ends. Then kill the children that still run."""
        try:
            with contextlib.suppress(BrokenPipeError):  # repro-kit is gone
                self._tell({"ready": True})
                while self._turn():
                    pass
        finally:
            for child in list(self.children.values()):
                self._end(child, kill=True)
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _turn(self) -> bool:
        for key, _ in self.selector.select(self._patience()):
            if key.fd == 0:
                if not self._read_requests():
                    return False
            elif key.fd == self._wake[0]:
                os.read(key.fd, 1 << 16)
            elif not key.data.read():
                self.selector.unregister(key.fd)  # the pipe is closed; the query ends when the child exits
        now = time.monotonic()
        for child in list(self.children.values()):
            if child.process.poll() is not None:
                self._tell(self._end(child))
            elif child.deadline < now:
                child.timed_out = True
                self._tell(self._end(child, kill=True))
        return True

    def _patience(self) -> float | None:
        deadlines = [child.deadline for child in self.children.values()]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _read_requests(self) -> bool:
        data = os.read(0, 1 << 16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "prepare" in request:
                self.start.prepare(request["prepare"])
            elif "cancel" in request:
                if request["cancel"] in self.children:
                    self._end(self.children[request["cancel"]], kill=True)
            elif "expire" in request:
                if request["expire"] in self.children:
                    self.children[request["expire"]].deadline = 0.0
            else:
                self._begin(request)
        return bool(data)

    def _begin(self, request: Query) -> None:
        pipes = [child.pipe for child in self.children.values()]
        child = Child(request, self.scratch, self.start, [self.channel, *self._wake, *pipes])
        self.children[request["id"]] = child
        self.selector.register(child.pipe, selectors.EVENT_READ, child)

    def _end(self, child: Child, kill: bool = False) -> Reply:
        with contextlib.suppress(KeyError):  # the child has closed its pipe already
            self.selector.unregister(child.pipe)
        del self.children[child.request["id"]]
        if kill:
            child.kill()
        child.process.wait()
        child.kill()  # its group
        others = {other.process.pid for other in self.children.values()} | self.start.waiting()
        end_strays(others, child.scratch if self.children else None)
        return child.finish()

    def _tell(self, reply: Reply | ServerReady) -> None:
        write_all(self.channel, json.dumps(reply).encode() + b"\n")


def _forking(scratch: str) -> Callable[[], Start]:
    """Import torch, and return a function that tries the accelerator: until the first query its memory stays free."""
    with accelerator_left_alone():
        threads = import_torch(scratch)

    def choose() -> Start:
        with accelerator_left_alone():
            found = ask_child()
            if found.name and not found.problem:
                import_for(found.name, scratch, threads)
                found = ask_child()
        if not found.problem:
            return Fork(threads, limits_memory=not found.name)
        said = f"{found.name or 'the accelerator'} fails after a fork ({found.problem})"
        print(f"repro-kit: each query gets a fresh interpreter: {said}", file=sys.stderr)
        return Spawn()

    return choose


def main(scratch: str, how: str = "fork") -> None:
    """Prepare the server, and serve."""
    channel = os.dup(1)
    os.dup2(2, 1)  # so that torch's output does not mix with the replies
    adopt_strays()
    try:
        end_with_parent()  # the end of stdin would go unnoticed while torch is imported
        Server(scratch, channel, Spawn if how == "spawn" else _forking(scratch)).run()
    except ParentGone:
        end_strays(())
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)  # without torch's clean-up, which takes a second and has nothing to do


if __name__ == "__main__":
    main(*sys.argv[1:])
