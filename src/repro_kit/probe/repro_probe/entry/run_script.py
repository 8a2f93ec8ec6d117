"""Run a candidate of a source reduction as a script, in a process that has imported torch before."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib
import json
import logging
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Sequence
from types import FrameType
from typing import Any, cast

from repro_probe.change import export_stand_ins
from repro_probe.entry import boot
from repro_probe.entry.record_expressions import ExpressionRecorder, is_writing
from repro_probe.protocol.orders import Orders
from repro_probe.protocol.queries import Query, QueryAnswer, Recording

#: Events about paths that would be changed: the places of the paths, each with that of its directory's descriptor.
_CHANGES_PATHS: dict[str, tuple[tuple[int, int], ...]] = {
    "os.remove": ((0, 1),), "os.rmdir": ((0, 1),), "os.mkdir": ((0, 2),), "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)), "os.symlink": ((1, 2),), "os.truncate": ((0, -1),), "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),), "os.chflags": ((0, -1),), "os.setxattr": ((0, -1),), "os.removexattr": ((0, -1),),
    "os.utime": ((0, 3),), "sqlite3.connect": ((0, -1),), "shutil.rmtree": ((0, 1),), "shutil.move": ((0, -1), (1, -1)),
}  # fmt: skip
_ACTS = {
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "subprocess.Popen", "pty.spawn", "os.kill",
    "os.killpg", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto",
    "ftplib.connect", "smtplib.connect", "urllib.Request", "webbrowser.open",
}  # fmt: skip
_HERE = ("", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::")
#: Parts of torch that write caches and start native compilers by themselves.
_COMPILER = tuple(
    os.path.join("torch", *parts)
    for parts in (("_inductor",), ("_dynamo",), ("_functorch",), ("_logging",), ("utils", "cpp_extension"))
)
_LIBRARIES = ("triton" + os.sep, "repro_probe" + os.sep)


class FileGuard:
    """Refuses, once installed, every event that reaches beyond the directories `own`.

    A candidate lacks statements of the user's script, so what is left may get other arguments than the user wrote,
    and may run where it did not run before. Python's audit events show it before it happens (PEP 578). The compiler
    itself writes to its caches and starts native compilers; it may.
    """

    def __init__(self, own: Sequence[str]) -> None:
        self.refused: list[str] = []
        self._own = tuple(os.path.join(os.path.realpath(path), "") for path in (*own, "/dev"))
        self._script = ""

    def install(self, script: str) -> None:
        """Watch this process to its end. `script` is the file of the candidate."""
        self._script = script
        _audit_writers(sys.modules["torch"])
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int):
                return  # a descriptor that is open already
            reaches = is_writing(mode, flags) and self._is_elsewhere(path)
        elif event in _CHANGES_PATHS:
            reaches = any(
                self._is_elsewhere(arguments[path], arguments[at] if 0 < at < len(arguments) else -1)
                for path, at in _CHANGES_PATHS[event]
            )
        else:
            reaches = event in _ACTS and not _asks_for_port(event, arguments)
        if reaches and not self._by_compiler(sys._getframe(1)):
            self.refused.append(event)
            raise PermissionError(f"repro-kit refuses {event} while it reduces the script")

    def _is_elsewhere(self, path: Any, directory: Any = -1) -> bool:
        """Whether `path` is outside of the own directories. `directory`: a descriptor that it counts from, or -1."""
        if path == ":memory:":
            return False
        if isinstance(path, int):
            path = f"/proc/self/fd/{path}"
        elif isinstance(directory, int) and directory >= 0:
            path = os.path.join(f"/proc/self/fd/{directory}", os.fsdecode(path))
        return not os.path.realpath(os.fsdecode(path)).startswith(self._own)

    def _by_compiler(self, frame: FrameType | None) -> bool:
        """Whether the compiler acts, and not the script: its frame is nearer than any frame of the script."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file == self._script:
                return False
            if file != __file__ and any(part in file for part in (*_COMPILER, *_LIBRARIES)):
                return True
            frame = frame.f_back
        return False


def _asks_for_port(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a socket only gets a free port of this machine, as a script chooses one for its ranks to meet at."""
    address = arguments[1] if event == "socket.bind" else None
    return isinstance(address, tuple) and address[:1] != () and address[0] in _HERE and address[1:2] == (0,)


def _audit_writers(torch: Any) -> None:
    """Report a file that ``torch.save`` opens in C++, which raises no event."""
    writer = getattr(torch.serialization, "_open_zipfile_writer_file", None)
    if writer is None:
        return
    opens = writer.__init__

    def audited(self: Any, name: Any, *arguments: Any, **named: Any) -> None:
        sys.audit("open", name, "w", 0)
        opens(self, name, *arguments, **named)

    writer.__init__ = audited


_NAME = "script.py"
_PATIENCE = 3.0  # seconds that the other ranks have to end, once the first has failed
_LOOK = 0.02  # seconds between looks at the ranks


def run(request: Query, threads: int | None = None) -> QueryAnswer:
    """Run the script of `request` to its end; the findings, the trace and the output go to its directory.

    The script works in the query's scratch directory, and the guard refuses everything that would reach beyond it. Only
    a recording of the whole script runs it as the user did, and without the guard.
    `threads` is the machine's default number of threads, for a process that has changed its own number.
    """
    import torch

    order = request["script"]
    _redirect(order["directory"])
    if threads is not None:
        torch.set_num_threads(threads)
    os.environ.update(order["env"])
    faulthandler.disable()  # the stack of a crash or of a hang goes to the findings, as in the user's run
    return _run_ranks(request) if order["ranks"] > 1 else _run_rank(request)


def _run_ranks(request: Query) -> QueryAnswer:
    """Run the script once in each rank, and return what all of them answer, with the first status that is not 0.

    Every rank is a separate process, which ends with its script and closes its connections, as under torchrun. If one
    fails, the others may wait for it for ever, and have only some seconds left.
    """
    ranks = request["script"]["ranks"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks)
    )
    left = {_start_rank(request, rank): rank for rank in range(ranks)}
    status, until = 0, float("inf")
    while left and time.monotonic() < until:
        for pid in list(left):
            ended, code = os.waitpid(pid, os.WNOHANG)
            if ended:
                of_rank = _status_of(left.pop(pid), os.waitstatus_to_exitcode(code))
                status = status or of_rank
        if status:
            until = min(until, time.monotonic() + _PATIENCE)
        time.sleep(_LOOK)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    refused = [word for rank in range(ranks) for word in _refused(request, rank)]
    return {"status": "pass", "phase": "exit", "exit_status": status, "refused": refused}


def _start_rank(request: Query, rank: int) -> int:
    """Fork a rank that runs the script, writes down what the guard refused, and ends; return its process id."""
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        answer = _run_rank(request)
        with open(_answer_file(request, rank), "w", encoding="utf-8") as file:
            json.dump(answer["refused"], file)
        status = answer["exit_status"]
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _status_of(rank: int, status: int) -> int:
    """The exit status of a rank. Where a signal ended rank 0, this process dies of it too, as the script would."""
    if status < 0 and rank == 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _refused(request: Query, rank: int) -> list[str]:
    """What the guard refused a rank; nothing for one that did not end by itself."""
    try:
        with open(_answer_file(request, rank), encoding="utf-8") as file:
            return list(json.load(file))
    except (OSError, ValueError):
        return []


def _answer_file(request: Query, rank: int) -> str:
    return os.path.join(request["scratch"], f"refused-{rank}.json")


def _run_rank(request: Query) -> QueryAnswer:
    order = request["script"]
    directory, scratch = order["directory"], request["scratch"]
    if not order["options"].get("eager"):
        _trace_to(os.path.join(directory, "trace"))
    guard = FileGuard([scratch, directory])
    export_stand_ins.allow_placeholders(scratch, directory)
    boot.start(_orders(request))
    atexit._clear()  # callbacks of the process that forked this one, and the probe's, which takes as long as a script
    path = os.path.join(scratch, _NAME)
    with open(path + str(os.getpid()), "w", encoding="utf-8") as file:  # every rank writes the same script
        file.write(order["text"])
    os.replace(file.name, path)
    recording = order["recording"]
    if recording is None or recording["cwd"] is None:
        guard.install(path)
    status = _run_as_main(path, order["text"]) if recording is None else _record(recording, order["text"], path)
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return {"status": "pass", "phase": "exit", "exit_status": status, "refused": guard.refused}


def _record(recording: Recording, text: str, path: str) -> int:
    """Run a script, perhaps in the user's directory and under its own name, and write what its expressions returned."""
    if recording["cwd"] is not None:
        os.chdir(recording["cwd"])
        path = recording["main"]
    recorder = ExpressionRecorder()
    recorder.install()
    try:
        return _run_as_main(path, text)
    finally:
        if os.environ.get("RANK", "0") == "0":
            recorder.write(recording["file"])


def _orders(request: Query) -> Orders:
    order = request["script"]
    deadline = request["ends"] - min(1.0, request["timeout"] / 10)
    options = {**order["options"], "deadline": deadline}
    directory = os.path.join(order["directory"], "probe")
    return cast(Orders, {"token": "", "mode": order["mode"], "directory": directory, "options": options})


def _draw_anew() -> None:
    """Seed the process anew, like a new interpreter: forks of one process would share them."""
    import torch

    torch.seed()
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _run_as_main(path: str, text: str) -> int:
    """Run the script like ``python PATH``, and return the exit status."""
    module = types.ModuleType("__main__")
    namespace: dict[str, Any] = module.__dict__
    namespace.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    sys.argv[:] = [path]
    sys.path[0] = os.path.dirname(path)
    _draw_anew()
    try:
        exec(compile(text, path, "exec", dont_inherit=True), namespace)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__ and error.__traceback__.tb_next  # without the frame of this function
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _redirect(directory: str) -> None:
    for descriptor, name in ((1, "stdout.txt"), (2, "stderr.txt")):
        file = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)


def _trace_to(directory: str) -> None:
    """Have torch write its structured trace to `directory`, as if TORCH_TRACE had been set before its import."""
    os.environ["TORCH_TRACE"] = directory
    logs: Any = importlib.import_module("torch._logging._internal")
    handler = logs.LazyTraceHandler(directory)
    handler.setFormatter(logs.TorchLogsFormatter(trace=True))
    logs.trace_log.addHandler(handler)
    logs.trace_log.setLevel(logging.DEBUG)
