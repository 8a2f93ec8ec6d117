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
from typing import Any, cast

from repro_probe.change import placeholders
from repro_probe.entry import boot
from repro_probe.entry.file_guard import FileGuard
from repro_probe.entry.record_expressions import ExpressionRecorder
from repro_probe.protocol.orders import Orders
from repro_probe.protocol.queries import Query, QueryAnswer, Recording

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
    placeholders.allow_placeholders(scratch, directory)
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
