"""A process that has imported torch and forks per query: requests and replies are JSON lines on stdin and stdout.

Forking is safe here because this process never runs a parallel operator, starts no thread and never touches an
accelerator. Each child has a session, a directory and limits of its own; whatever becomes of it, its group is killed
and its directory removed before the reply goes out.

``python -m repro_probe.zygote SCRATCH [spawn]``: SCRATCH is the directory for what the children leave behind, removed
at the end. With ``spawn`` nothing is imported here, and each query gets a fresh interpreter.
"""

import contextlib
import json
import os
import selectors
import shutil
import signal
import sys
import time

from repro_probe.children import Fork, Spawn, write_all
from repro_probe.describe import describe_fault
from repro_probe.warm import import_torch

_TAIL = 20000  # bytes of stderr that go into a reply
_GRACE = 10.0  # seconds that a child may take to exit once it has replied


class Child:
    """One query under way."""

    def __init__(self, request, scratch, start):
        self.request = request
        self.scratch = os.path.join(scratch, f"query-{request['id']}")
        os.makedirs(self.scratch)
        self.started = time.monotonic()
        self.deadline = self.started + request["timeout"]
        self.phase = self.reply = None
        self.timed_out = False
        self._unread = b""
        self.pipe, write_end = os.pipe()
        ends = time.time() + request["timeout"]
        self.pid, self._wait = start({**request, "scratch": self.scratch, "ends": ends}, write_end)
        os.close(write_end)

    def read(self):
        """Take in what the child reports; False at the end."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self.phase = told.get("phase", self.phase)
            if "reply" in told:
                self.reply = told["reply"]
                self.deadline = min(self.deadline, time.monotonic() + _GRACE)
        return bool(data)

    def kill(self):
        """Kill the child and everything it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def finish(self):
        """Wait for the end, clean up; the whole reply."""
        os.close(self.pipe)
        code = self._wait()
        self.kill()
        signal_name = signal.Signals(-code).name if code < 0 and not self.timed_out else None
        text, fault = (_tail(os.path.join(self.scratch, name)) for name in ("stderr.txt", "fault.txt"))
        reply = judge_end(self, signal_name, text, fault)
        shutil.rmtree(self.scratch, ignore_errors=True)
        return {"id": self.request["id"], "seconds": round(time.monotonic() - self.started, 4), **reply}


def judge_end(child, signal_name, text, fault):
    """The reply for a child that ended: by itself with a reply of its own, by a signal, at the time-out, or mutely."""
    reply = child.reply
    if (child.timed_out and reply is None) or (signal_name and (reply or {}).get("status") in (None, "pass")):
        before = child.request["mode"] != "check" or (reply is None and child.phase in (None, "load", "eager"))
        ended = {
            "status": "invalid" if before else "fail",
            "phase": child.phase if reply is None else "exit",
            "text": (text + "\n" + fault).strip(),
            "stack": describe_fault(fault),
        }
        return {**ended, "timed_out": True} if child.timed_out else {**ended, "signal": signal_name}
    if reply is None:
        return {"status": "infra", "phase": child.phase, "text": text or "the query ended without a reply"}
    return {**reply, "text": text}


def _tail(path):
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


class Server:
    """The main loop: requests in, children out, replies as they end."""

    def __init__(self, scratch, channel, start):
        self.scratch = scratch
        self.channel = channel
        self.start = start
        self.children = {}  # by pipe
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ)
        self._unread = b""

    def run(self):
        """Serve until stdin ends; then kill what still runs."""
        try:
            while self._turn():
                pass
        finally:
            for child in list(self.children.values()):
                self._end(child, kill=True)
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _turn(self):
        for key, _ in self.selector.select(self._patience()):
            if key.fd == 0:
                if not self._read_requests():
                    return False
            elif key.fd in self.children and not self.children[key.fd].read():
                self._answer(self._end(self.children[key.fd]))
        now = time.monotonic()
        for child in [child for child in self.children.values() if child.deadline < now]:
            child.timed_out = True  # also when it has exited, but something it left behind holds the pipe open
            self._answer(self._end(child, kill=True))
        return True

    def _patience(self):
        deadlines = [child.deadline for child in self.children.values()]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _read_requests(self):
        data = os.read(0, 1 << 16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "prepare" in request:
                self.start.prepare(request["prepare"])
            elif "cancel" in request:
                for child in [c for c in self.children.values() if c.request["id"] == request["cancel"]]:
                    self._end(child, kill=True)
            else:
                self._begin(request)
        return bool(data)

    def _begin(self, request):
        child = Child(request, self.scratch, self.start)
        self.children[child.pipe] = child
        self.selector.register(child.pipe, selectors.EVENT_READ)

    def _end(self, child, kill=False):
        self.selector.unregister(child.pipe)
        del self.children[child.pipe]
        if kill:
            child.kill()
        return child.finish()

    def _answer(self, reply):
        write_all(self.channel, json.dumps(reply).encode() + b"\n")


def main(scratch, how="fork"):
    """Get ready, say so, serve."""
    channel = os.dup(1)
    os.dup2(2, 1)  # what torch prints is not a reply
    start = Spawn() if how == "spawn" else Fork(import_torch(scratch))
    write_all(channel, json.dumps({"ready": True}).encode() + b"\n")
    Server(scratch, channel, start).run()
    os._exit(0)  # torch's own clean-up takes a second, and there is nothing left to clean up


if __name__ == "__main__":
    main(*sys.argv[1:])
