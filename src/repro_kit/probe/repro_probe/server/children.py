"""Start a process per query: forked from this one, or a fresh interpreter."""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback

from repro_probe.query import evaluate
from repro_probe.run.program import recipe_of

_PR_SET_PDEATHSIG = 1


class Fork:
    """Start children by forking; `threads` is what torch would use by itself."""

    def __init__(self, threads):
        self.threads = threads

    def prepare(self, env):
        """Nothing to do: this process is what children are made of."""

    def waiting(self):
        """Process ids of what was prepared."""
        return set()

    def __call__(self, request, write_end, private):
        """Start a child that reports to `write_end` and has none of the descriptors in `private`."""
        pid = os.fork()
        if pid == 0:
            self._live(request, write_end, private)
        return Forked(pid)

    def _live(self, request, write_end, private):
        """The child's whole life; never returns."""
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
            evaluate.settle(request)
            evaluate.limit(request.get("memory"))

            def tell(data):
                write_all(write_end, json.dumps(data).encode() + b"\n")

            tell({"reply": evaluate.evaluate(request, tell, self.threads)})
            evaluate.disturb_heap()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(code)  # no finalizers: they belong to the parent


class Forked:
    """A forked child, to wait for as for a `subprocess.Popen`."""

    def __init__(self, pid):
        self.pid = pid
        self._code = None

    def poll(self):
        """The exit code (negative: the signal); None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self):
        """The exit code, once it has ended."""
        return self._wait(0)

    def _wait(self, options):
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


class Spawn:
    """Start fresh interpreters (`fresh.py`). One can be got ready ahead: importing torch is most of a short query."""

    def __init__(self):
        self._ready = None  # (environment that the recipe asks for, process, socket)

    def prepare(self, env):
        """Start an interpreter that imports torch, with `env` on top of this process's environment, and waits."""
        self._discard()
        mine, its = socket.socketpair()
        with its:
            process = subprocess.Popen(
                [sys.executable, "-m", "repro_probe.server.fresh", str(its.fileno())],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(its.fileno(),),
                start_new_session=True,
            )
        self._ready = (dict(env), process, mine)

    def waiting(self):
        """Like `Fork`."""
        return set() if self._ready is None else {self._ready[1].pid}

    def __call__(self, request, write_end, private):
        """Like `Fork`; a new interpreter has no descriptor that it is not given."""
        env = _environment(request)
        if self._ready is None or self._ready[0] != env or self._ready[1].poll() is not None:
            self.prepare(env)
        (_, process, channel), self._ready = self._ready, None
        path = os.path.join(request["scratch"], "request.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(request, file)
        with channel, contextlib.suppress(OSError):  # one that died has no reply, which is noticed
            socket.send_fds(channel, [path.encode()], [write_end])
        return process

    def _discard(self):
        if self._ready is not None:
            _, process, channel = self._ready
            self._ready = None
            channel.close()
            process.kill()
            process.wait()


def _environment(request):
    """Variables that the query's recipe asks for; none where that cannot be read, which the query will say."""
    try:
        recipe = recipe_of(request.get("text") or "")
    except (SyntaxError, ValueError):
        return {}
    return dict(recipe.get("env") or {})


def write_all(descriptor, data):
    """Write all of `data`."""
    while data:
        data = data[os.write(descriptor, data) :]


def redirect(scratch):
    """Standard input from nowhere, output to files in `scratch`."""
    output = [os.path.join(scratch, name) for name in ("stdout.txt", "stderr.txt")]
    for descriptor, path in enumerate((os.devnull, *output)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, descriptor)
        os.close(file)


def die_with_parent(number=signal.SIGKILL):
    """A server that is killed takes its children along, where the system offers that."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


class ParentGone(BaseException):
    """The process at the other end of stdin has ended."""


def end_with_parent():
    """Raise `ParentGone` in the main thread when this process's parent ends, or has ended."""
    me = os.getpid()
    stdin = select.poll()
    stdin.register(0, 0)  # that it was hung up is told unasked

    def look(*_):
        if os.getpid() == me and stdin.poll(0):  # the signal comes too when only the thread that started us ends
            raise ParentGone

    signal.signal(signal.SIGHUP, look)
    die_with_parent(signal.SIGHUP)
    look()
