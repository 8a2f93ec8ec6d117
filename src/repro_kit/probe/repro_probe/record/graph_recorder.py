"""Record every graph that Dynamo makes, with its inputs, before the backend gets it.

This module hooks one private part of torch: `OutputGraph.call_user_compiler` (torch/_dynamo/output_graph.py), which
passes every graph to its backend. The backend object is not wrapped, since a wrapper would lose its modes and options.
Everything is written to disk before the program continues, so that an abort loses nothing.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from repro_probe.change.eager_parts import compile_id_of
from repro_probe.change.override import compile_settings, is_users
from repro_probe.common.imports import when_imported
from repro_probe.common.run_files import FindingsDirectory, as_json
from repro_probe.protocol.findings import EVENTS, INPUTS
from repro_probe.protocol.graph_data import (
    GRAPH,
    BackendData,
    EventName,
    GraphContent,
    GraphData,
    GraphEvent,
)
from repro_probe.record.memory import Memory

if TYPE_CHECKING:
    from repro_probe.record.values import ValueStore  # this module imports torch

#: Exceptions with which Dynamo restarts or skips a frame. They are not failures.
_CONTROL_FLOW = {"TensorifyScalarRestartAnalysis", "RestartAnalysis", "SkipFrame", "UnspecializeRestartAnalysis"}
_MOST_CALLS = 4  # calls of one graph that are recorded, with their backwards
_LIMIT = 2 << 30  # bytes of tensor values in one process
_LATER = 8  # the values of later calls may use the limit divided by this


def install(findings: FindingsDirectory) -> None:
    """Record the graphs, and the arguments of every `torch.compile`. Option ``limit``: bytes of tensor values."""
    from repro_probe.record import export_recorder

    recorder = record_graphs(findings)
    when_imported("torch", lambda torch: _note_compile(torch, recorder))
    export_recorder.install(recorder)


def record_graphs(findings: FindingsDirectory) -> GraphRecorder:
    """Hook `OutputGraph.call_user_compiler` once its module is imported, and return the recorder."""
    recorder = GraphRecorder(findings, findings.options.get("limit", _LIMIT))
    when_imported("torch._dynamo.output_graph", lambda module: hook(module, recorder))
    when_imported("torch._dynamo.aot_compile", lambda module: _name_backend_ahead(module, recorder))
    return recorder


def _note_compile(torch: Any, recorder: GraphRecorder) -> None:
    """Record the arguments of every `torch.compile`, which are all there is for a script that makes no graph."""
    compile_ = getattr(torch, "compile", None)
    if compile_ is None:  # a file of the program's that is called torch
        return

    @functools.wraps(compile_)
    def compile(model: Any = None, **arguments: Any) -> Any:
        if is_users(sys._getframe(1)):
            recorder.event("compile-call", None, settings=compile_settings(arguments))
        return compile_(model, **arguments)

    torch.compile = compile


def hook(module: Any, recorder: GraphRecorder) -> None:
    """Call `recorder` for every graph that Dynamo passes to a backend."""
    cls = module.OutputGraph
    original = cls.call_user_compiler

    @functools.wraps(original)
    def call_user_compiler(self: Any, gm: Any, *rest: Any, **named: Any) -> Any:
        # In an older torch the method asks for the example inputs by itself.
        example_inputs = rest[0] if rest else named.get("example_inputs") or self.example_inputs()
        graph = recorder.graph_seen(self, gm, example_inputs)
        try:
            compiled = original(self, gm, *rest, **named)
        except BaseException as error:
            if not _CONTROL_FLOW & {base.__name__ for base in type(error).__mro__}:
                recorder.failed("compile-fail", graph, error)
            raise
        recorder.event("compile-end", graph)
        return recorder.watch(graph, compiled)

    cls.call_user_compiler = call_user_compiler


def _name_backend_ahead(module: Any, recorder: GraphRecorder) -> None:
    """Record the graphs of `torch.compile(…).aot_compile` for their backend; Dynamo passes them to a stub at first."""
    original = getattr(module, "aot_compile_fullgraph", None)
    if original is None:
        return

    @functools.wraps(original)
    def aot_compile_fullgraph(*positional: Any, **named: Any) -> Any:
        from repro_probe.record.graph import backend_of

        given = inspect.signature(original).bind(*positional, **named).arguments
        with recorder.compiled_by(backend_of(given["backend"])):
            return original(*positional, **named)

    module.aot_compile_fullgraph = aot_compile_fullgraph


def _described(
    gm: Any, inputs: Sequence[Any], store: ValueStore, *, backend: BackendData, fullgraph: bool
) -> GraphContent:
    from repro_probe.record.graph import describe_graph

    return describe_graph(gm, inputs, store, backend=backend, fullgraph=fullgraph)


class GraphRecorder:
    """Writes each graph to its own file, and the events of a process, in order, to one file."""

    def __init__(self, findings: FindingsDirectory | Memory, limit: int = _LIMIT) -> None:
        self.findings = findings
        self.limit = limit  # bytes of tensor values to record
        self.lock = threading.Lock()
        self.count = 0
        self.calls: dict[int | None, int] = {}
        self.store: ValueStore | None = None
        self.later: ValueStore | None = None
        self.pid: int | None = None
        self.backend: BackendData | None = None  # what Dynamo's graphs are recorded for, if not for their own backend

    def event(self, name: EventName, graph: int | None, **more: Any) -> None:
        """Append one line to the events of this process."""
        event = cast(GraphEvent, {"event": name, "graph": graph, "time": time.time(), **more})
        with self.lock:
            self.findings.append(EVENTS, as_json(event))

    def failed(self, name: EventName, graph: int | None, error: BaseException) -> None:
        """Record that a graph raised an exception."""
        from repro_probe.common.tracebacks import describe_exception

        self.event(name, graph, exceptions=describe_exception(error))

    @contextlib.contextmanager
    def compiled_by(self, backend: BackendData) -> Iterator[None]:
        """Record Dynamo's graphs of this block as compiled by `backend`."""
        self.backend = backend
        try:
            yield
        finally:
            self.backend = None

    @contextlib.contextmanager
    def compiling(self, read: Callable[[], tuple[Any, Sequence[Any]]], backend: BackendData) -> Iterator[int]:
        """Record the graph and the inputs that `read` returns, which `backend` compiles in this block.

        The block gets the number of the graph.
        """
        graph = self._record(
            lambda number: f"{backend['name']}/{number}",
            lambda store: _described(*read(), store, backend=backend, fullgraph=False),
        )
        try:
            yield graph
        except BaseException as error:
            self.failed("compile-fail", graph, error)
            raise
        self.event("compile-end", graph)

    def first_call_is_known(self, graph: int) -> None:
        """Count the inputs that `graph` was compiled with, which are recorded with the graph, as its first call."""
        self.calls[graph] = 1
        self.event("call-begin", graph, call=0)
        self.event("call-end", graph, call=0)

    def graph_seen(self, output: Any, gm: Any, example_inputs: Any) -> int | None:
        """Write the graph and its first inputs. Return the number of the graph in this process."""
        from repro_probe.record.graph import backend_of

        compile_id, backend = str(compile_id_of(output)), self.backend
        fullgraph = bool(getattr(output.root_tx, "one_graph", False))
        return self._record(
            lambda _: compile_id,
            lambda store: _described(
                gm, example_inputs, store, backend=backend or backend_of(output.compiler_fn), fullgraph=fullgraph
            ),
        )

    def _record(self, name: Callable[[int], str], describe: Callable[[ValueStore], GraphContent]) -> int:
        store = self._store_of_process()
        with self.lock:
            number = self.count
            self.count += 1
        record: GraphData = {"number": number, "pid": os.getpid(), "compile_id": name(number)}
        try:
            record.update(cast(GraphData, describe(store)))
        except Exception as error:
            record["problem"] = f"{type(error).__name__}: {error}"
            record["traceback"] = traceback.format_exc()
        self.findings.write(f"{GRAPH}-{number}", record)
        self.event("compile-begin", number)
        return number

    def _store_of_process(self) -> ValueStore:
        if self.pid == os.getpid() and self.store is not None:
            return self.store
        from repro_probe.record.values import ValueStore

        self.pid = os.getpid()
        self.count = 0
        inputs = os.path.join(self.findings.directory, INPUTS)
        self.store = ValueStore(inputs, self.limit, f"v{self.pid}_")
        self.later = ValueStore(inputs, self.limit // _LATER, f"w{self.pid}_", self.store)
        return self.store

    def watch(self, graph: int | None, compiled: Any) -> Callable[..., Any]:
        """Return `compiled` wrapped so that its calls and the start of its backward are recorded."""

        def run(*arguments: Any) -> Any:
            call = self.calls.get(graph, 0)
            self.calls[graph] = call + 1
            self._call_seen(graph, call, arguments)
            try:
                result = compiled(*arguments)
            except BaseException as error:
                self.failed("call-fail", graph, error)
                raise
            if call < _MOST_CALLS:
                self.event("call-end", graph, call=call)
                self.watch_backward(graph, result)
            return result

        return run

    def _call_seen(self, graph: int | None, call: int, arguments: tuple[Any, ...]) -> None:
        if call >= _MOST_CALLS:
            if call == _MOST_CALLS:
                self.event("more-calls", graph)
            return
        record: dict[str, Any] = {}
        if call > 0:  # the inputs of the first call are recorded with the graph
            try:
                from repro_probe.record.graph import describe_arguments

                first = self._store_of_process()
                record["inputs"] = describe_arguments(arguments, self.later or first)
            except Exception as error:
                record["problem"] = f"{type(error).__name__}: {error}"
        self.event("call-begin", graph, call=call, **record)

    def watch_backward(self, graph: int | None, result: Any) -> None:
        """Record the start of the backward through the result of a call of `graph`."""
        import torch

        from repro_probe.record.surroundings import compiles_autograd

        if compiles_autograd():  # compiled autograd would trace the hook too
            return
        for output in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(output, torch.Tensor) and output.requires_grad and output.grad_fn is not None:
                output.register_hook(functools.partial(self._backward_seen, graph))

    def _backward_seen(self, graph: int | None, gradient: Any) -> None:
        if gradient is None:  # the backward does not reach this result, but another one, whose hook notes it
            return
        import torch

        try:
            strided = gradient.layout is torch.strided and gradient.numel() > 0
            expanded = strided and not any(gradient.stride())
        except Exception:  # a nested tensor and a subclass may have no strides; then nothing is known of the values
            expanded = False
        self.event("backward-begin", graph, uniform=expanded)
