"""Run a candidate of a source reduction as a script, in a process that has imported torch before."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import sys
import threading
import types
from typing import Any, cast

from repro_probe.entry import boot
from repro_probe.entry.file_guard import FileGuard
from repro_probe.entry.record_expressions import ExpressionRecorder
from repro_probe.protocol.orders import Orders
from repro_probe.protocol.queries import Query, QueryAnswer, Recording

_NAME = "script.py"


def run(request: Query, threads: int | None = None) -> QueryAnswer:
    """Run the script of `request` to its end; the findings, the trace and the output go to its directory.

    The script works in the query's scratch directory, and the guard refuses everything that would reach beyond it. Only
    a recording runs the whole script, as the user did, and without the guard.
    `threads` is the machine's default number of threads, for a process that has changed its own number.
    """
    import torch

    order = request["script"]
    directory, scratch = order["directory"], request["scratch"]
    _redirect(directory)
    if threads is not None:
        torch.set_num_threads(threads)
    os.environ.update(order["env"])
    if not order["options"].get("eager"):
        _trace_to(os.path.join(directory, "trace"))
    guard = FileGuard([scratch, directory])
    boot.start(_orders(request))
    atexit._clear()  # callbacks of the process that forked this one, and the probe's, which takes as long as a script
    path = os.path.join(scratch, _NAME)
    with open(path, "w", encoding="utf-8") as file:
        file.write(order["text"])
    recording = order["recording"]
    if recording is not None:
        status = _record(recording, order["text"])
    else:
        guard.install(path)
        status = _run_as_main(path, order["text"])
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return {"status": "pass", "phase": "exit", "exit_status": status, "refused": guard.refused}


def _record(recording: Recording, text: str) -> int:
    """Run a script in the user's directory and under its own name, and write what its expressions returned."""
    os.chdir(recording["cwd"])
    recorder = ExpressionRecorder()
    recorder.install()
    try:
        return _run_as_main(recording["main"], text)
    finally:
        recorder.write(recording["file"])


def _orders(request: Query) -> Orders:
    order = request["script"]
    deadline = request["ends"] - min(1.0, request["timeout"] / 10)
    options = {**order["options"], "deadline": deadline}
    directory = os.path.join(order["directory"], "probe")
    return cast(Orders, {"token": "", "mode": order["mode"], "directory": directory, "options": options})


def _run_as_main(path: str, text: str) -> int:
    """Run the script like ``python PATH``, and return the exit status."""
    module = types.ModuleType("__main__")
    namespace: dict[str, Any] = module.__dict__
    namespace.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    sys.argv[:] = [path]
    sys.path[0] = os.path.dirname(path)
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
