"""Write a case when torch.compile fails, from inside the failing program.

While a program is watched, the metadata of each graph and torch's structured trace are kept in memory. At a failure
they are written with the exception and the environment as a case, from which `repro-kit collect` continues. The module
needs only the standard library and torch, and never imports torch by itself.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from repro_probe.common import run_files
from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.common.tracebacks import own_packages
from repro_probe.entry import boot
from repro_probe.protocol.findings import (
    EXCEPTION,
    OWNER_FILE,
    WATCHED_DIRECTORY,
    WATCHED_FILE,
    WATCHED_SCHEMA,
    WatchedData,
    mark_of,
)
from repro_probe.protocol.graph_data import EventName
from repro_probe.record import graph_recorder
from repro_probe.record.memory import Memory, TraceMemory

_SUFFIX = ".repro"
_NO_VALUES = -1  # a size limit that excludes every tensor

#: An exception that is raised in these directories is due to torch.compile.
_COMPILERS = tuple(
    os.path.join("torch", name, "") for name in ("_dynamo", "_inductor", "_functorch", "_higher_order_ops")
)
_CHECKS = (os.path.join("torch", "testing", ""), os.path.join("numpy", "testing", ""))
_GENERATED = ("torchinductor", "<eval_with_key>")

#: Prefixes of variables that may affect compilation. The bundle has a shorter list.
_VARIABLES = ("TORCH", "PYTORCH", "TRITON", "CUDA", "CUBLAS", "NVIDIA", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "ATEN_")


class watch(contextlib.ContextDecorator):
    """Write a case to `path` when a failure of torch.compile leaves the block or the decorated function.

    The exception is raised as usual. `saved` is the path of the case, or None while there is none. When `path` exists,
    a number is added to the name. Without `path`, the case is named after the script.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = os.fspath(path) if path is not None else _default_path()
        self.saved: str | None = None

    def __call__(self, function: Any) -> Any:
        """Return `function` watched. Raises TypeError for coroutines and generators, which run after their call."""
        kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        if any(is_one(function) for is_one in kinds):
            raise TypeError(
                f"{function.__qualname__} is a coroutine or generator; put `with repro_kit.watch(…):` in its body"
            )
        return super().__call__(function)

    def _recreate_cm(self) -> watch:
        return type(self)(self.path)

    def __enter__(self) -> watch:
        _watching.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self.saved = _watching.save(self.path, error)
        finally:
            _watching.leave()


def save_repro(
    fn: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    path: str | os.PathLike[str] | None = None,
) -> str | None:
    """Call ``fn(*args, **kwargs)`` compiled, and write a case to `path` when the call fails.

    `fn` is a function or module, compiled already or not. Returns the path of the case, or None when the call does not
    fail, or does not fail in the compiler.
    """
    import torch

    compiled = fn if _is_compiled(fn) else torch.compile(fn)
    for again in (False, True):
        if again:  # a graph that was compiled earlier was not recorded
            torch._dynamo.reset()
        watching = watch(path)
        with contextlib.suppress(Exception), watching:
            compiled(*args, **(kwargs or {}))
        if watching.saved is not None or _watching.seen:
            break
    return watching.saved


def _is_compiled(fn: Any) -> bool:
    return (
        hasattr(fn, "_torchdynamo_orig_callable")
        or hasattr(fn, "_orig_mod")
        or bool(getattr(fn, "_compiled_call_impl", None))
    )


_OFF, _ON = ("", "0", "no", "false", "off"), ("1", "yes", "true", "on")  # values of REPRO_KIT; repro_kit.pth too


def start(value: str) -> None:
    """Watch the whole process. `value` is the path of the case, or ``1`` for a case named after the script."""
    word = value.strip().lower()
    if word in _OFF or boot.is_worker():
        return
    if word not in _ON and os.sep not in value and not value.endswith(_SUFFIX):
        _say(f"REPRO_KIT={value!r} is not 1 (on), 0 (off) or the path of a case (NAME{_SUFFIX}); nothing is watched.")
        os.environ["REPRO_KIT"] = "0"  # so that child processes do not repeat the message
        return
    path = None if word in _ON else value  # the script's name is not known yet
    _watching.enter()
    before, before_thread = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        _watching.save(path or _default_path(), error)

    def thread_hook(arguments: threading.ExceptHookArgs) -> None:
        before_thread(arguments)
        if arguments.exc_value is not None:
            _watching.save(path or _default_path(), arguments.exc_value)

    sys.excepthook, threading.excepthook = hook, thread_hook


def _default_path() -> str:
    main = sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "out"
    return os.path.splitext(os.path.basename(main))[0] + _SUFFIX


class _SwitchedRecorder(graph_recorder.GraphRecorder):
    """Records while `on` is true. A graph that was compiled at other times is not wrapped."""

    on = False

    def event(self, name: EventName, graph: int | None, **more: Any) -> None:
        if self.on and graph is not None:
            super().event(name, graph, **more)

    def failed(self, name: EventName, graph: int | None, error: BaseException) -> None:
        super().failed(name, graph, error)
        _mark(error, "_repro_kit_of_graph", True)

    def graph_seen(self, output: Any, gm: Any, example_inputs: Any) -> int | None:
        return super().graph_seen(output, gm, example_inputs) if self.on else None

    def watch(self, graph: int | None, compiled: Any) -> Any:
        if graph is None:
            return compiled
        return functools.wraps(compiled, updated=("__dict__",) if hasattr(compiled, "__dict__") else ())(
            super().watch(graph, compiled)
        )


class _Watching:
    """The state that all watched blocks of this process share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.depth = 0
        self.seen = 0  # graphs that were compiled in the last block
        self.memory, self.trace = Memory(), TraceMemory()
        self.recorder: _SwitchedRecorder | None = None

    def enter(self) -> None:
        """Enter a watched block."""
        if run_files.read_orders() is not None:  # repro-kit runs this program, and records it already
            return
        with self.lock:
            self.depth += 1
            if self.depth > 1:
                return
            if self.recorder is None:
                recorder = self.recorder = _SwitchedRecorder(self.memory, _NO_VALUES)
                when_imported("torch._dynamo.output_graph", lambda module: graph_recorder.hook(module, recorder))
            self.recorder.on = True
            self.seen = -self.memory.graphs
            when_imported("torch._logging._internal", self._trace_into_memory)

    def _trace_into_memory(self, module: Any) -> None:
        if self.depth:
            self.trace.start(module)

    def leave(self) -> None:
        """Leave a watched block. The records stay, since a graph of this block may fail in the next block."""
        with self.lock:
            self.depth -= bool(self.depth)
            if self.depth or self.recorder is None:
                return
            self.recorder.on = False
            self.seen += self.memory.graphs
            self.trace.stop()

    def save(self, path: str, error: BaseException) -> str | None:
        """Write a case when `error` concerns the compiler, and return its path. No exception is raised from here."""
        if not self.depth or "torch" not in sys.modules or not isinstance(error, Exception):
            return None
        with self.lock:
            saved = getattr(error, "_repro_kit_case", None)
            if saved is not None or not self._concerns_compiler(error):
                return saved
            try:
                case = _write(path, error, self.memory, self.trace)
                _mark(error, "_repro_kit_case", case)
            except Exception as problem:
                _say(f"this failure could not be saved at {path}: {type(problem).__name__}: {problem}")
                return None
        _say(f"this failure of torch.compile is saved in {case}; continue with: repro-kit collect {shlex.quote(case)}")
        return case

    def _concerns_compiler(self, error: BaseException | None) -> bool:
        while error is not None:
            if getattr(error, "_repro_kit_of_graph", False):
                return True
            files = _files(error)
            own = max((at for at, file in enumerate(files) if _is_users(file)), default=-1)
            if any(mark in file for file in files[own + 1 :] for mark in _COMPILERS + _GENERATED):
                return True
            checked = isinstance(error, AssertionError) and files and any(mark in files[-1] for mark in _CHECKS)
            if checked and self.memory.graphs:
                return True
            error = error.__cause__ or error.__context__
        return False


def _mark(error: BaseException, name: str, value: object) -> None:
    with contextlib.suppress(AttributeError):  # an exception with __slots__
        setattr(error, name, value)


def _files(error: BaseException) -> list[str]:
    files, trace = [], error.__traceback__
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return files


def _is_users(file: str) -> bool:
    installed = ("site-packages", "dist-packages", os.path.join("lib", "python"), *own_packages())
    return not any(mark in file for mark in (*installed, *_COMPILERS, *_GENERATED, *_CHECKS))


def _write(path: str, error: BaseException, memory: Memory, trace: TraceMemory) -> str:
    """Write the case atomically, and return its path."""
    torch = sys.modules["torch"]
    case = os.path.abspath(_free(path))
    aside = f"{case}.part{os.getpid()}"
    recorded = FindingsDirectory(os.path.join(aside, WATCHED_DIRECTORY), {})
    try:
        os.makedirs(os.path.join(recorded.directory, "trace"))
        os.chmod(aside, 0o700)
        boot.say_hello(recorded, torch)
        boot.note_exception(recorded, EXCEPTION, error)
        boot.say_goodbye(recorded)
        memory.write_to(recorded)
        trace.write_to(os.path.join(recorded.directory, "trace"))
        about = json.dumps(_about(torch, memory), indent=2)
        for name, text in ((WATCHED_FILE, about), (OWNER_FILE, mark_of(aside, about))):
            with open(os.path.join(aside, name), "w", encoding="utf-8") as file:
                file.write(text)
        os.replace(aside, case)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return os.path.relpath(case) if case.startswith(os.getcwd() + os.sep) else case


def _about(torch: Any, memory: Memory) -> WatchedData:
    return {
        "schema": WATCHED_SCHEMA,
        "python": sys.executable,
        "torch": str(torch.__version__),
        "command": boot.argv(),
        "cwd": os.getcwd(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "variables": {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)},
        "graphs": memory.graphs,
        "dropped": memory.dropped,
    }


def _free(path: str) -> str:
    """Return `path`, with a number added when `path` exists."""
    stem, ending = os.path.splitext(path)
    rank = os.environ.get("RANK", "0")
    stem += "-rank" + rank if rank != "0" else ""
    count = 1
    while os.path.lexists(stem + (f"-{count}" if count > 1 else "") + ending):
        count += 1
    return stem + (f"-{count}" if count > 1 else "") + ending


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        sys.stderr.write(f"repro-kit: {text}\n")


_watching = _Watching()
