"""What several insights need to know of each compile, gathered once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.graph_text import GraphShape, shape_of
from repro_kit.trace.places import CodeKey, CompileRef, Files, ref_of
from repro_kit.trace.record import Record

#: What is kept of a compile's metrics.
_NUMBERS = ("guard_count", "graph_op_count", "guard_latency_us", "duration_us")


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as it went into a compile."""

    sizes: tuple[int | str, ...] = ()
    dtype: str = ""
    device: str = ""
    parameter: bool = False
    strides: tuple[int | str, ...] = ()


@dataclass
class CompileFacts:
    """One compile, as far as the trace has told of it."""

    ref: CompileRef
    code: Frame | None = None  # the code object: file, first line, name
    attempts: int = 1
    numbers: dict[str, float] = field(default_factory=dict)
    backward_us: float = 0.0
    seconds: float = 0.0  # without a time in the metrics: from its first record to its last
    graphs: int = 0
    shape: GraphShape | None = None  # of its first graph
    described: bool = False  # its inputs are known
    tensors: dict[str, TensorSpec] = field(default_factory=dict)  # by source, those that differ from its frame's first

    @property
    def name(self) -> str:
        """Name of the compiled function."""
        return self.code.function if self.code else ""


@dataclass
class CodeFrame:
    """All compiles of one code object in one process: they share a frame id."""

    code: Frame | None = None
    compiles: list[CompileFacts] = field(default_factory=list)
    dynamic: bool = False  # compiled with dynamic=True
    first: dict[str, TensorSpec] = field(default_factory=dict)  # tensors of its first compile, by source

    def tensors(self, one: CompileFacts) -> Mapping[str, TensorSpec]:
        """All tensors that went into `one`; none where it did not get so far."""
        return {**self.first, **one.tensors} if one.described else {}


@dataclass
class CompileIndex:
    """Every compile in order, the code it is of, and the files that were seen."""

    compiles: dict[CompileRef, CompileFacts] = field(default_factory=dict)
    frames: dict[CodeKey, CodeFrame] = field(default_factory=dict)
    files: Files = field(default_factory=Files.none)
    logs: dict[str, int | None] = field(default_factory=dict)  # and their ranks
    _pending: dict[tuple[str, int, int], TensorSpec] = field(default_factory=dict)
    _specs: dict[TensorSpec, TensorSpec] = field(default_factory=dict)
    _shapes: dict[GraphShape, GraphShape] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Note what the record says of its compile."""
        self.logs.setdefault(record.file, record.rank)
        ref = ref_of(record)
        if ref is None:
            return
        one = self.compiles.get(ref) or self._begin(ref)
        one.attempts = max(one.attempts, record.attempt + 1)
        match record.event:
            case "dynamo_start":
                self._start(one, record)
            case "describe_tensor":
                self._tensor(record)
            case "describe_source":
                self._source(one, record)
            case "dynamo_output_graph":
                self._graph(one, record)
            case "compilation_metrics" | "bwd_compilation_metrics":
                self._metrics(one, record)

    def frame(self, ref: CompileRef) -> CodeFrame:
        """The code object that `ref` is a compile of."""
        return self.frames[ref.code_key]

    def code(self, ref: CompileRef) -> Frame | None:
        """Where the code that `ref` compiles is."""
        one = self.compiles.get(ref)
        return (one.code or self.frame(ref).code) if one else None

    def _begin(self, ref: CompileRef) -> CompileFacts:
        one = self.compiles[ref] = CompileFacts(ref)
        self.frames.setdefault(ref.code_key, CodeFrame()).compiles.append(one)
        return one

    def _start(self, one: CompileFacts, record: Record) -> None:
        stack = record.frames("stack")
        self.files.note(stack)
        if stack:
            self._code(one, stack[-1])
        for key in [key for key in self._pending if key[0] == record.file]:
            del self._pending[key]

    def _code(self, one: CompileFacts, code: Frame) -> None:
        frame = self.frame(one.ref)
        frame.code = frame.code or code
        one.code = frame.code if frame.code == code else code

    def _tensor(self, record: Record) -> None:
        data = record.fields
        spec = TensorSpec(
            _sizes(data.get("size")),
            str(data.get("dtype", "")).removeprefix("torch."),
            str(data.get("device", "")).removeprefix("device(type='").rstrip("')"),
            bool(data.get("is_parameter")),
            _sizes(data.get("stride")),
        )
        self._pending[record.file, _number(data.get("describer_id")), _number(data.get("id"))] = self._specs.setdefault(
            spec, spec
        )

    def _source(self, one: CompileFacts, record: Record) -> None:
        data = record.fields
        key = record.file, _number(data.get("describer_id")), _number(data.get("id"))
        spec = self._pending.pop(key, None)
        source = data.get("source")
        if spec is None or not isinstance(source, str):
            return
        frame, source = self.frame(one.ref), sys.intern(source)
        one.described = True
        if frame.compiles[0] is one:
            frame.first[source] = spec
        elif frame.first.get(source) != spec:
            one.tensors[source] = spec

    def _graph(self, one: CompileFacts, record: Record) -> None:
        one.graphs += 1
        shape = shape_of(record.payload or "")
        one.shape = self._shapes.setdefault(shape, shape)

    def _metrics(self, one: CompileFacts, record: Record) -> None:
        data = record.fields
        numbers = {key: value for key in _NUMBERS if (value := record.number(key))}
        if record.event == "bwd_compilation_metrics":
            one.backward_us += numbers.get("duration_us", 0)
            return
        one.numbers = numbers
        if '"assume_static_by_default": false' in record.text("dynamo_config"):
            self.frame(one.ref).dynamic = True
        if one.code is None and data.get("co_filename"):
            line = int(record.number("co_firstlineno"))
            self._code(one, Frame(str(data["co_filename"]), line, record.text("co_name")))
        one.seconds = record.number("entire_frame_compile_time_s") or numbers.get("duration_us", 0) / 1e6


def _sizes(value: Any) -> tuple[int | str, ...]:
    return tuple(it if isinstance(it, int) else str(it) for it in value) if isinstance(value, list) else ()


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1
