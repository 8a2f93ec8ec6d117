"""Start the probe in a process of the user's run: the mode comes from its orders, the findings go to a directory.

Every record is a file of its own, named after the process, and written at once: a process that is killed leaves what
it had found.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any

from repro_probe.common.findings_directory import FindingsDirectory
from repro_probe.common.imports import when_imported
from repro_probe.common.stacks import dump_at
from repro_probe.protocol.findings import (
    EVENTS,
    EXCEPTION,
    GOODBYE,
    HELLO,
    PROBE_ERROR,
    STACK,
    THREAD_EXCEPTION,
    WITNESS,
    Goodbye,
    Hello,
    Raised,
)
from repro_probe.protocol.graph_data import CompileSettings, GraphEvent
from repro_probe.protocol.orders import Measure, Orders, RunMode

#: Processes that are tools of the compiler (Inductor's compile workers) are not the user's.
_WORKER_MARKS = ("torch/_inductor/compile_worker", "multiprocessing.resource_tracker")

_files: list[IO[str]] = []  # kept open for faulthandler


def start(orders: Orders) -> None:
    """Install what the orders ask for. A failure of the probe is noted and never stops the user's run."""
    if is_worker():
        return
    findings = FindingsDirectory(orders["directory"], orders["options"])
    try:
        os.makedirs(findings.directory, exist_ok=True)
        when_imported("torch", lambda torch: _guarded(findings, _torch_seen, findings, torch))
        _install_mode(orders["mode"], findings)
    except Exception:
        _complain(findings)


def is_worker() -> bool:
    """Whether this process is a tool of the compiler, and not the user's."""
    return any(mark in part.replace(os.sep, "/") for mark in _WORKER_MARKS for part in argv())


def _guarded(findings: FindingsDirectory, function: Callable[..., Any], *arguments: Any) -> None:
    try:
        function(*arguments)
    except Exception:
        _complain(findings)


def _complain(findings: FindingsDirectory) -> None:
    with open(findings.path(PROBE_ERROR, "txt"), "a", encoding="utf-8") as file:
        traceback.print_exc(file=file)


def _install_mode(mode: RunMode, findings: FindingsDirectory) -> None:
    if mode == "capture":
        from repro_probe.record import graph_recorder

        graph_recorder.install(findings)
    elif mode == "override":
        from repro_probe.change import override

        override.install(findings, lambda settings: _note_settings(findings, settings), _watch_calls(findings))
        if findings.options.get("record"):
            from repro_probe.record import graph_recorder

            graph_recorder.record_graphs(findings)
        if "timeline" in findings.options:
            from repro_probe.calls import timeline

            timeline.install(findings)


def _note_settings(findings: FindingsDirectory, settings: CompileSettings) -> None:
    """Append to the events of this process, as the recording of graphs does."""
    event: GraphEvent = {"event": "compile-call", "graph": None, "time": time.time(), "settings": settings}
    findings.append(EVENTS, json.dumps(event, default=repr))


def _watch_calls(findings: FindingsDirectory) -> Callable[[Any, Any], Any]:
    """What the script gets for something compiled: itself, or what is measured or witnessed when it is called."""
    if findings.options.get("measure"):
        return _measured(findings, findings.options["measure"])
    if findings.options.get("witness"):
        from repro_probe.calls.witness import Witness

        made: list[Witness] = []
        when_imported("torch", lambda torch: made.append(Witness(torch, lambda calls: findings.write(WITNESS, calls))))
        return lambda compiled, original: made[0](original, compiled)
    return lambda compiled, original: compiled


def _measured(findings: FindingsDirectory, measures: Sequence[Measure]) -> Callable[[Any, Any], Any]:
    """Gives the script what it compiled, its calls observed for what is to be measured."""
    from repro_probe.calls import call_timing, calls

    watching: list[calls.WatchedCalls] = []

    def watch(compiled: Any, original: Any) -> Any:
        if not watching:
            observers: list[calls.Observer] = []
            if {"time", "memory"} & set(measures):
                observers.append((call_timing.observer(measures), None))
            if "accuracy" in measures:
                from repro_probe.calls import compare_calls  # which needs torch, and it is there by now

                observers.insert(0, (compare_calls.observe, compare_calls.CALLS))
            watching.append(calls.WatchedCalls(findings, observers))
        return watching[0].watch(compiled, original)

    return watch


def _torch_seen(findings: FindingsDirectory, torch: Any) -> None:
    """First sign of torch in this process: say hello, and from here on watch how it ends."""
    say_hello(findings, torch)
    _watch_exceptions(findings)
    _watch_signals(findings)
    atexit.register(_guarded, findings, say_goodbye, findings)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _guarded(findings, _after_fork, findings, torch))


def _after_fork(findings: FindingsDirectory, torch: Any) -> None:
    say_hello(findings, torch)
    _watch_signals(findings)


def say_hello(findings: FindingsDirectory, torch: Any) -> None:
    """Write down which process this is."""
    hello: Hello = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "argv": argv(),
        "executable": sys.executable,
        "python": sys.version.split()[0],
        "torch": str(torch.__version__),
        "time": time.time(),
        "rank": os.environ.get("RANK"),
    }
    findings.write(HELLO, hello)


def argv() -> list[str]:
    """The whole command line, with the interpreter where that is known (Python 3.10)."""
    return getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv]


def say_goodbye(findings: FindingsDirectory) -> None:
    """Write down what is known in the end: the user's own modules, and the settings of the process."""
    from repro_probe.calls import call_timing
    from repro_probe.common import torch_environment

    goodbye: Goodbye = {
        "pid": os.getpid(),
        "modules": _own_modules(),
        "peak_memory": call_timing.peak(),
        **torch_environment.settings(),
    }
    findings.write(GOODBYE, goodbye)


def _own_modules() -> dict[str, str]:
    """Files of the modules that were imported from outside of any installation: the user's own."""
    package = os.path.dirname(os.path.dirname(__file__))
    installed = (sys.prefix, sys.base_prefix, package, os.environ.get("TORCHINDUCTOR_CACHE_DIR"))
    prefixes = tuple(os.path.join(os.path.abspath(prefix), "") for prefix in installed if prefix)
    files = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        # torch.ops and torch.classes are modules whose file is no path.
        if not (isinstance(file, str) and file.endswith(".py") and os.path.isabs(file)) or file.startswith(prefixes):
            continue
        if not any(mark in file for mark in ("site-packages", "dist-packages", "torchinductor_")):
            files[name] = file
    files.pop("sitecustomize", None)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main and os.path.exists(main) and "site-packages" not in main:
        files["__main__"] = os.path.abspath(main)
    return files


def note_exception(findings: FindingsDirectory, name: str, error: BaseException) -> None:
    """Write the chain of `error` down, the tolerance of the check that raised it, and what it is about."""
    from repro_probe.common.describe_exception import describe_exception
    from repro_probe.judge.stated import tolerance
    from repro_probe.record import nature

    raised: Raised = {
        "time": time.time(),
        "exceptions": describe_exception(error),
        "tolerance": tolerance(error),
        **nature.of(error),
    }
    findings.write(name, raised)


def _watch_exceptions(findings: FindingsDirectory) -> None:
    """Keep an uncaught exception as data, then let the user's hook have it."""
    before = sys.excepthook
    before_thread = threading.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            _guarded(findings, note_exception, findings, EXCEPTION, error)
        before(kind, error, trace)

    def thread_hook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            _guarded(findings, note_exception, findings, THREAD_EXCEPTION, arguments.exc_value)
        before_thread(arguments)

    sys.excepthook = hook
    threading.excepthook = thread_hook


def _watch_signals(findings: FindingsDirectory) -> None:
    """Python stacks of a crash, and those of a hang shortly before the run's deadline, go to a file."""
    file = open(findings.path(STACK, "txt"), "a", encoding="utf-8")  # noqa: SIM115 - must outlive this function
    _files.append(file)
    if not faulthandler.is_enabled():
        faulthandler.enable(file)
    deadline = findings.options.get("deadline")
    if deadline is not None:
        dump_at(deadline, file)
