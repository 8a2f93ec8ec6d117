"""A process that has imported torch and forks per query: requests and replies are JSON lines on stdin and stdout.

Forking is safe here because this process never runs a parallel operator, starts no thread and never touches an
accelerator. Each child has a session, a directory and limits of its own; whatever becomes of it, its group is killed
and its directory removed before the reply goes out.

``python -m repro_probe.zygote SCRATCH [spawn]``: SCRATCH is the directory for what the children leave behind, removed
at the end. With ``spawn`` nothing is imported here, and each query gets a fresh interpreter.
"""

import contextlib
import ctypes
import importlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
import traceback

from repro_probe import evaluate
from repro_probe.describe import describe_fault

_TAIL = 20000  # bytes of stderr that go into a reply
_PR_SET_PDEATHSIG = 1
_GRACE = 10.0  # seconds that a child may take to exit once it has replied

#: Goes through Dynamo, AOTAutograd and Inductor, forward and backward.
_WARM_UP = """
import torch
RECIPE = {"backward": "randn"}
def graph(x):
    y = torch.relu(x) @ x
    return (y,)
def calls():
    x = torch.randn(8, 8).requires_grad_()
    return [(x,)]
"""


def import_torch(scratch):
    """Import what children will need, once; the threads that torch would use by itself."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    import torch._dynamo
    import torch._inductor.compile_fx
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    pick_vec_isa()  # compiles a probe and keeps the answer
    for name in _known_modules(scratch, threads):
        # What a query makes up itself, such as the module of a kernel, is not to be found here.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return threads


def _known_modules(scratch, threads):
    """Names of the modules that a first query imports, kept in the shared cache directory once they are found."""
    place = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if not place:
        return _modules_of_a_query(scratch, threads)
    path = os.path.join(place, "modules.txt")
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        return file.read().split()
    names = _modules_of_a_query(scratch, threads)
    aside = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        with open(aside, "w", encoding="utf-8") as file:
            file.write("\n".join(names))
        os.replace(aside, path)
    return names


def _modules_of_a_query(scratch, threads):
    """Those names, found in a child: running a query here would leave state behind.

    It also precompiles the headers of kernels, which no time-out interrupts here.
    """
    request = {"mode": "check", "text": _WARM_UP, "scratch": os.path.join(scratch, "warm-up"), "timeout": 600}
    os.makedirs(request["scratch"])
    read_end, write_end = os.pipe()
    before = set(sys.modules)
    pid = os.fork()
    if pid == 0:
        try:
            _redirect(request["scratch"])
            evaluate.settle(request)
            evaluate.evaluate(request, lambda told: None, threads)
            _write_all(write_end, "\n".join(sorted(set(sys.modules) - before)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as file:
        names = file.read().split("\n")
    os.waitpid(pid, 0)
    shutil.rmtree(request["scratch"], ignore_errors=True)
    return [name for name in names if name.partition(".")[0] in ("torch", "sympy", "triton", "repro_probe")]


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
        self.pid, self._wait = start({**request, "scratch": self.scratch}, write_end)
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

    def _died_of_the_dump(self, code):
        """Whether the stack's dump before the time-out killed it: reading a running thread's frames can."""
        timeout = self.request["timeout"]
        late = time.monotonic() - self.started >= timeout - min(1.0, timeout / 10)
        return late and self.reply is None and code in (-signal.SIGSEGV, -signal.SIGBUS)

    def finish(self):
        """Wait for the end, clean up; the whole reply."""
        os.close(self.pipe)
        code = self._wait()
        self.kill()
        self.timed_out = self.timed_out or self._died_of_the_dump(code)
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


def spawn(request, write_end):
    """Start a fresh interpreter for `request`: its process id, and how to wait for its exit code."""
    path = os.path.join(request["scratch"], "request.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(request, file)
    command = [sys.executable, "-m", "repro_probe.evaluate", path, f"/dev/fd/{write_end}"]
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context(open(name, "wb")) for name in _output_files(request["scratch"]))
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=(write_end,), start_new_session=True
        )
    return process.pid, process.wait


class Fork:
    """Start children by forking; `threads` is what torch would use by itself."""

    def __init__(self, threads):
        self.threads = threads

    def __call__(self, request, write_end):
        """Like `spawn`."""
        pid = os.fork()
        if pid == 0:
            self._live(request, write_end)
        return pid, lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _live(self, request, write_end):
        """The child's whole life; never returns."""
        code = 1
        try:
            os.setsid()
            _die_with_parent()
            _redirect(request["scratch"])
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            evaluate.settle(request)
            evaluate.limit(request.get("memory"))

            def tell(data):
                _write_all(write_end, json.dumps(data).encode() + b"\n")

            tell({"reply": evaluate.evaluate(request, tell, self.threads)})
            evaluate.disturb_heap()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(code)  # no finalizers: they belong to the parent


def _write_all(descriptor, data):
    while data:
        data = data[os.write(descriptor, data) :]


def _output_files(scratch):
    return [os.path.join(scratch, name) for name in ("stdout.txt", "stderr.txt")]


def _redirect(scratch):
    for descriptor, path in enumerate((os.devnull, *_output_files(scratch))):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, descriptor)
        os.close(file)


def _die_with_parent():
    """A zygote that is killed takes its children along, where the system offers that."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
            if "cancel" in request:
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
        _write_all(self.channel, json.dumps(reply).encode() + b"\n")


def main(scratch, how="fork"):
    """Get ready, say so, serve."""
    channel = os.dup(1)
    os.dup2(2, 1)  # what torch prints is not a reply
    start = spawn if how == "spawn" else Fork(import_torch(scratch))
    _write_all(channel, json.dumps({"ready": True}).encode() + b"\n")
    Server(scratch, channel, start).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
