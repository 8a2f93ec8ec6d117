"""Start the probe in a process of the user's run. Its orders name the mode, and the directory for the findings.

Every finding is a separate file, named after the process and written at once. So a process that is killed leaves its
findings up to then.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from repro_probe.common import torch_logs
from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory, as_json
from repro_probe.common.torch_logs import out_of_reach
from repro_probe.common.tracebacks import dump_at, own_packages
from repro_probe.common.vec_isa import remember_loads
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
from repro_probe.protocol.orders import Orders, RunMode

#: Command lines with these words are tools, such as Inductor's compile workers, and not the user's processes.
_WORKER_MARKS = ("torch/_inductor/compile_worker", "multiprocessing.resource_tracker")


def start(orders: Orders) -> None:
    """Install what the orders ask for. A failure of the probe is recorded, and never stops the user's run."""
    if is_worker():
        return
    findings = FindingsDirectory(orders["directory"], orders["options"])
    try:
        os.makedirs(findings.directory, exist_ok=True)
        when_imported("torch", lambda torch: _guarded(findings, _torch_seen, findings, torch))
        when_imported("torch._logging._internal", lambda module: _guarded(findings, torch_logs.keep_apart, module))
        when_imported("torch._inductor.cpu_vec_isa", lambda module: _guarded(findings, remember_loads, module))
        when_imported("torch", lambda torch: _guarded(findings, _keep_trace_quiet))
        _install_mode(orders["mode"], findings)
        if orders["mode"] != "override" or not orders["options"].get("measure"):  # a thread would change a measurement
            from repro_probe.record import rank_state

            rank_state.install(findings)
    except Exception:
        complain(findings)


def is_worker() -> bool:
    """Whether this process is a tool, such as a compile worker, and not the user's."""
    return any(mark in part.replace(os.sep, "/") for mark in _WORKER_MARKS for part in argv())


def _keep_trace_quiet() -> None:
    from repro_probe.record.trace_texts import run_no_code_of_the_program

    run_no_code_of_the_program()


def _guarded(findings: FindingsDirectory, function: Callable[..., Any], *arguments: Any) -> None:
    try:
        function(*arguments)
    except Exception:
        complain(findings)


def complain(findings: FindingsDirectory) -> None:
    """Write down the error of the probe's that is being handled."""
    # Where not even this can be written, such as without descriptors, the program goes on without the probe.
    with contextlib.suppress(OSError):
        findings.append(PROBE_ERROR, traceback.format_exc(), "txt")


def _install_mode(mode: RunMode, findings: FindingsDirectory) -> None:
    if mode == "capture":
        from repro_probe.record import graph_recorder

        graph_recorder.install(findings)
    elif mode == "override":
        from repro_probe.calls.calls import measuring_of
        from repro_probe.change import override

        measuring = measuring_of(findings) if findings.options.get("measure") else None
        watch = measuring.watch if measuring else _watch_calls(findings)
        override.install(findings, lambda settings: _note_settings(findings, settings), watch)
        if findings.options.get("record"):
            from repro_probe.record import export_recorder, graph_recorder

            export_recorder.install(graph_recorder.record_graphs(findings))
        if findings.options.get("hidden_writes"):
            from repro_probe.record import hidden_writes

            hidden_writes.watch_hidden_writes(findings)
        if measuring:
            measuring.compare_exports()  # outside of what the overrides put in place of an export
        if "timeline" in findings.options:
            from repro_probe.calls import recorded_calls

            recorded_calls.record_timeline(findings)


def _note_settings(findings: FindingsDirectory, settings: CompileSettings) -> None:
    """Append a call of `torch.compile` to the events of this process."""
    event: GraphEvent = {"event": "compile-call", "graph": None, "time": time.time(), "settings": settings}
    findings.append(EVENTS, as_json(event))


def _watch_calls(findings: FindingsDirectory) -> Callable[[Any, Any], Any]:
    """Return a function that wraps a compiled callable so that its calls are nudged or recorded, if ordered."""
    if "nudge" in findings.options:
        from repro_probe.calls.calls import nudged

        direction, only = float(findings.options["nudge"]), findings.options.get("nudged")
        return lambda compiled, original: nudged(compiled, original, direction, only)
    if findings.options.get("witness"):
        from repro_probe.calls.recorded_calls import Witness

        made: list[Witness] = []
        when_imported("torch", lambda torch: made.append(Witness(torch, lambda calls: findings.write(WITNESS, calls))))
        return lambda compiled, original: made[0](original, compiled)
    return lambda compiled, original: compiled


def _torch_seen(findings: FindingsDirectory, torch: Any) -> None:
    """Record this process when it imports torch, and watch how it ends."""
    for name in ("calls.call_timing", "common.torch_environment"):  # for `say_goodbye`
        # After an import at the end, the interpreter forgets that an interrupt ends it.
        importlib.import_module(f"repro_probe.{name}")
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
    """Write the finding that describes this process."""
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
    """Return the whole command line, with the interpreter's options on Python 3.10 and newer."""
    return getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv]


def say_goodbye(findings: FindingsDirectory) -> None:
    """Write the finding at the process's end: the user's modules, the peak memory and the settings."""
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
    """Return the files of the user's own modules: those that are not part of an installation."""
    installed = (sys.prefix, sys.base_prefix, *own_packages(), os.environ.get("TORCHINDUCTOR_CACHE_DIR"))
    prefixes = tuple(os.path.join(os.path.abspath(prefix), "") for prefix in installed if prefix)
    files = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        # The `__file__` of torch.ops and torch.classes is not a path.
        if not (isinstance(file, str) and file.endswith(".py") and os.path.isabs(file)) or file.startswith(prefixes):
            continue
        if not any(mark in file for mark in ("site-packages", "dist-packages", "torchinductor_")):
            files[name] = file
    files.pop("sitecustomize", None)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main and os.path.exists(main) and "site-packages" not in main and not _is_installed_command(main):
        files["__main__"] = os.path.abspath(main)
    return files


def _is_installed_command(file: str) -> bool:
    """Whether the file is a command in the interpreter's directory, such as pytest."""
    interpreter = sys.executable  # an embedded one has no file
    return bool(interpreter) and os.path.dirname(os.path.abspath(file)) == os.path.dirname(os.path.abspath(interpreter))


def note_exception(findings: FindingsDirectory, name: str, error: BaseException) -> None:
    """Write the chain of `error`, the tolerance of the check that raised it, and its nature."""
    from repro_probe.common.tracebacks import describe_exception, interrupted_frames
    from repro_probe.record.raised import nature_of, stated_tolerance

    raised: Raised = {
        "time": time.time(),
        "exceptions": describe_exception(error),
        "tolerance": stated_tolerance(error),
        "interrupted": interrupted_frames(error),
        **nature_of(error),
    }
    findings.write(name, raised)


def _watch_exceptions(findings: FindingsDirectory) -> None:
    """Write an uncaught exception as a finding, then call the user's hook."""
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
    when_imported("torch.multiprocessing.spawn", lambda spawn: _watch_spawned(findings, spawn))


def _watch_spawned(findings: FindingsDirectory, spawn: Any) -> None:
    """Write what a rank of `torch.multiprocessing.spawn` raises: torch catches that, and the parent raises its text."""
    wrap = spawn._wrap

    @functools.wraps(wrap)  # it is pickled by its name
    def noting_wrap(*arguments: Any) -> None:
        try:
            wrap(*arguments)
        except SystemExit as ended:  # torch leaves so once it has written the text, which has no frame of this function
            if ended.__context__ is not None:
                _guarded(findings, note_exception, findings, EXCEPTION, ended.__context__)
            raise

    spawn._wrap = noting_wrap


def _watch_signals(findings: FindingsDirectory) -> None:
    """Write Python's stack to a file at a crash, and shortly before the deadline of a run that hangs."""
    file = out_of_reach(os.open(findings.path(STACK, "txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    if not faulthandler.is_enabled():
        faulthandler.enable(file)
    deadline = findings.options.get("deadline")
    if deadline is not None:
        dump_at(deadline, file)
