"""Answer each query in a fork of this process or in a fresh interpreter (``python -m repro_probe.server.children``)."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from repro_probe.common import vec_isa
from repro_probe.common.tracebacks import dump_at
from repro_probe.entry import run_script
from repro_probe.protocol.queries import Query, QueryAnswer, QueryReport
from repro_probe.query import evaluate
from repro_probe.run.load_program import limit_memory, recipe_of
from repro_probe.server.shared_builds import build_whole


def enter_scratch(request: Query) -> None:
    """Change to the request's scratch directory, and send caches, temporary files and stacks there.

    Every query starts with empty graph caches, since these are part of what is judged. Python's stack is written to
    ``fault.txt`` at a fatal signal and shortly before the time-out.
    """
    scratch, left = request["scratch"], request["ends"] - time.time()
    os.chdir(scratch)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(scratch, "cache")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(scratch, "triton")
    temporary = os.path.join(scratch, "tmp")
    os.makedirs(temporary)
    os.environ["TMPDIR"] = tempfile.tempdir = temporary
    fault = os.open("fault.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # stays open for faulthandler
    faulthandler.enable(fault)
    dump_at(request["ends"] - min(1.0, left / 10), fault)


_LARGEST = 4 << 30  # bytes of one file


def limit_process(memory: int | None) -> None:
    """Limit this process: no core files, no huge files, and `memory` more bytes of address space (None: no limit).

    Address space is limited because an allocation that does not fit then raises an exception with a traceback. A watch
    on resident memory would be too late, or would kill without a message. The number of processes is not limited, since
    the system counts all processes of the user.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    largest = _LARGEST if hard == resource.RLIM_INFINITY else min(hard, _LARGEST)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    if memory:
        try:
            with open("/proc/self/statm", encoding="ascii") as file:
                mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            mapped = 0
        limit_memory(mapped + memory)


def disturb_heap() -> None:
    """Free and allocate memory, so that malloc checks its lists and heap corruption becomes a crash.

    This is called after the reply. A process that dies now has corrupted its heap before.
    """
    gc.collect()
    kept = [bytearray(16 << (number % 12)) for number in range(512)]
    del kept[::2]
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    for _ in range(2):
        kept.extend(bytearray(16 << (number % 12)) for number in range(256))
        if trim is not None:
            trim(0)  # makes glibc consolidate and check its free chunks
    del kept
    gc.collect()


_PR_SET_PDEATHSIG = 1


def answer(request: Query, tell: Callable[[QueryReport], None], threads: int | None = None) -> QueryAnswer:
    """Answer the request in this process: about a program, or by running a script."""
    if request["mode"] == "script":
        return run_script.run(request, threads)
    return evaluate.evaluate(request, tell, threads)


class Fork:
    """Starts children by forking. `threads` is torch's default number of threads.

    `limits_memory`: a child may only map as much memory as its request says. The runtime of an accelerator maps more
    address space than the machine has memory, so a child that may use one has no such limit.
    """

    def __init__(self, threads: int, limits_memory: bool = True) -> None:
        self.threads = threads
        self.limits_memory = limits_memory

    def prepare(self, env: Mapping[str, str]) -> None:
        """Do nothing: children are forks of this process."""

    def waiting(self) -> set[int]:
        """Return the process ids of prepared interpreters."""
        return set()

    def __call__(self, request: Query, write_end: int, private: Sequence[int]) -> Forked:
        """Start a child that reports to `write_end`, and that closes the descriptors in `private`."""
        pid = os.fork()
        if pid == 0:
            self._live(request, write_end, private)
        return Forked(pid)

    def _live(self, request: Query, write_end: int, private: Sequence[int]) -> None:
        """Run the child. This function never returns."""
        code = 1
        try:
            os.setsid()
            die_with_parent()
            redirect(request["scratch"])
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for descriptor in private:
                os.close(descriptor)
            enter_scratch(request)
            limit_process(request.get("memory") if self.limits_memory else None)

            def tell(data: QueryReport) -> None:
                write_all(write_end, json.dumps(data).encode() + b"\n")

            tell({"reply": answer(request, tell, self.threads)})
            disturb_heap()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(code)  # without finalizers, which belong to the parent


class Forked:
    """A forked child, with the `poll` and `wait` of a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code (negative: the signal); None while the child runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self) -> int:
        """Wait for the child's end, and return the exit code."""
        if self._code is None:
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code


class _PreparedInterpreter(NamedTuple):
    """An interpreter that waits for its query, and the variables that it was started with."""

    env: dict[str, str]
    process: subprocess.Popen[bytes]
    channel: socket.socket


_WARM = "warm"  # the word for an interpreter in which Inductor chooses its instruction set ahead of the query


class Spawn:
    """Starts fresh interpreters (`main`). One can be prepared ahead, since a short query mostly imports torch."""

    def __init__(self) -> None:
        self._ready: _PreparedInterpreter | None = None

    def prepare(self, env: Mapping[str, str]) -> None:
        """Start an interpreter that imports torch and waits. `env` is added to this process's environment."""
        self._ready = self._prepared(env, _WARM)

    def _prepared(self, env: Mapping[str, str], *words: str) -> _PreparedInterpreter:
        self._discard()
        channel, child_channel = socket.socketpair()
        with child_channel:
            process = subprocess.Popen(
                [sys.executable, "-m", "repro_probe.server.children", str(child_channel.fileno()), *words],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(child_channel.fileno(),),
                start_new_session=True,
            )
        return _PreparedInterpreter(dict(env), process, channel)

    def waiting(self) -> set[int]:
        """Return the process id of the prepared interpreter, if there is one."""
        return set() if self._ready is None else {self._ready.process.pid}

    def __call__(self, request: Query, write_end: int, private: Sequence[int]) -> subprocess.Popen[bytes]:
        """Send the request to an interpreter, which reports to `write_end` and inherits no other descriptor."""
        env = _environment(request)
        ready = self._ready
        if request["mode"] == "script":  # which may change what Inductor asks of the machine
            ready = self._prepared(env)
        elif ready is None or ready.env != env or ready.process.poll() is not None:
            ready = self._prepared(env, _WARM)
        self._ready = None
        path = os.path.join(request["scratch"], "request.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(request, file)
        with ready.channel, contextlib.suppress(OSError):  # the server notices that a dead interpreter gives no reply
            socket.send_fds(ready.channel, [path.encode()], [write_end])
        return ready.process

    def _discard(self) -> None:
        if self._ready is not None:
            ready, self._ready = self._ready, None
            ready.channel.close()
            ready.process.kill()
            ready.process.wait()


def _environment(request: Query) -> dict[str, str]:
    """Return the variables of a query's script or recipe. An unreadable recipe has none: the query will report it."""
    if request["mode"] == "script":
        return dict(request["script"]["env_before_torch"])
    try:
        recipe = recipe_of(request.get("text") or "")
    except (SyntaxError, ValueError):
        return {}
    return dict(recipe.get("env") or {})


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`."""
    while data:
        data = data[os.write(descriptor, data) :]


def redirect(scratch: str) -> None:
    """Make standard input empty, and send the output to files in `scratch`."""
    output = [os.path.join(scratch, name) for name in ("stdout.txt", "stderr.txt")]
    for descriptor, path in enumerate((os.devnull, *output)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, descriptor)
        os.close(file)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the system send signal `number` to this process when its parent dies (Linux only)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


class ParentGone(BaseException):
    """The process that writes to stdin has ended."""


def end_with_parent() -> None:
    """Raise `ParentGone` in the main thread when this process's parent ends, or has ended."""
    me = os.getpid()
    stdin = select.poll()
    stdin.register(0, 0)  # a hang-up is reported without asking for it

    def look(*_: Any) -> None:
        if os.getpid() == me and stdin.poll(0):  # the signal also comes when only the parent's thread ends
            raise ParentGone

    signal.signal(signal.SIGHUP, look)
    die_with_parent(signal.SIGHUP)
    look()


def main(descriptor: str, *words: str) -> None:
    """Answer one request. An interpreter that gets no request ends without a message."""
    die_with_parent()
    problem = None
    try:
        _import_torch(warm=_WARM in words)
    except Exception:
        problem = traceback.format_exc()
    with socket.socket(fileno=int(descriptor)) as channel:
        path, pipes, _, _ = socket.recv_fds(channel, 1 << 16, 1)
    if not pipes:
        return
    with open(path.decode(), encoding="utf-8") as file:
        request = json.load(file)
    redirect(request["scratch"])
    if problem is not None:
        sys.exit(problem)
    _answer(request, pipes[0])


def _import_torch(*, warm: bool) -> None:
    gc.disable()  # an import makes many objects and hardly any garbage
    # codecache must be imported before TMPDIR changes: its import fixes the directory of precompiled headers.
    for name in ("torch._dynamo", "torch._inductor.codecache", "torch._inductor.compile_fx"):
        importlib.import_module(name)
    build_whole()
    if warm:
        vec_isa.pick()  # the shared cache has its test libraries from the second query on
    gc.collect()
    gc.freeze()  # makes the garbage collection after the query quick
    gc.enable()


def _answer(request: Query, pipe: int) -> None:
    import torch

    enter_scratch(request)
    limit_process(None if torch.cuda.is_available() else request.get("memory"))

    def tell(data: QueryReport) -> None:
        write_all(pipe, json.dumps(data).encode() + b"\n")

    reply = answer(request, tell)
    tell({"reply": reply})
    if reply["status"] != "pass":
        sys.stderr.flush()
        os._exit(0)  # a crash at the end would add nothing to this verdict
    disturb_heap()


if __name__ == "__main__":
    main(*sys.argv[1:])
