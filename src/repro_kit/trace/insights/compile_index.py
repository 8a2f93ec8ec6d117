"""Facts about each compile that several insights need, and which compiles are alike."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from repro_kit.failure.failure import Frame
from repro_kit.trace.graph_text import GraphInput, GraphShape, inputs_of, shape_of
from repro_kit.trace.places import CodeKey, CompileRef, Files, ref_of
from repro_kit.trace.record import Record

#: The metrics of a compile that are kept.
#: torch/_dynamo/eval_frame.py; `inner` of external_utils.py is compiled code of its own.
_WRAPPERS, _OF_WRAPPERS = ("_fn", "compile_wrapper", "__call__", "_call_lazy_check"), "torch/_dynamo/eval_frame.py"
_NUMBERS = ("guard_count", "graph_op_count", "guard_latency_us", "duration_us")


@dataclass(frozen=True)
class TensorSpec:
    """An input tensor of a compile."""

    sizes: tuple[int | str, ...] = ()
    dtype: str = ""
    device: str = ""
    parameter: bool = False
    strides: tuple[int | str, ...] = ()


@dataclass
class CompileFacts:
    """What the trace says about one compile."""

    ref: CompileRef
    code: Frame | None = None  # the code object: file, first line, name
    attempts: int = 1
    restarts: tuple[str, ...] = ()  # why the analysis began again, as torch says
    numbers: dict[str, float] = field(default_factory=dict)
    backward_us: float = 0.0
    seconds: float = 0.0  # compile time
    graphs: int = 0
    shape: GraphShape | None = None  # shape of the last graph
    described: bool = False  # the inputs are known
    tensors: dict[str, TensorSpec] = field(
        default_factory=dict
    )  # by source; only those that differ from the frame's first compile

    @property
    def name(self) -> str:
        """Name of the compiled function."""
        return self.code.function if self.code else ""


@dataclass
class CodeFrame:
    """All compiles of one code object in one process; they share a frame id."""

    code: Frame | None = None
    compiles: list[CompileFacts] = field(default_factory=list)
    dynamic: bool = False  # compiled with dynamic=True
    static: bool = False  # compiled with dynamic=False
    first: dict[str, TensorSpec] = field(default_factory=dict)  # input tensors of the first compile, by source

    def tensors(self, compile_: CompileFacts) -> Mapping[str, TensorSpec]:
        """All input tensors of `compile_`; empty if the trace does not describe them."""
        return {**self.first, **compile_.tensors} if compile_.described else {}


@dataclass
class CompileIndex:
    """Every compile in order, the code that it compiles, and the files that were seen."""

    compiles: dict[CompileRef, CompileFacts] = field(default_factory=dict)
    frames: dict[CodeKey, CodeFrame] = field(default_factory=dict)
    files: Files = field(default_factory=Files.none)
    logs: dict[str, int | None] = field(default_factory=dict)  # rank by log
    _pending: dict[tuple[str, int, int], TensorSpec] = field(default_factory=dict)
    _specs: dict[TensorSpec, TensorSpec] = field(default_factory=dict)
    _shapes: dict[GraphShape, GraphShape] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use what the record says about its compile."""
        self.logs.setdefault(record.file, record.rank)
        ref = ref_of(record)
        if ref is None:
            return
        compile_ = self.compiles.get(ref) or self._begin(ref)
        compile_.attempts = max(compile_.attempts, record.attempt + 1)
        match record.event:
            case "dynamo_start":
                self._start(compile_, record)
            case "describe_tensor":
                self._tensor(record)
            case "describe_source":
                self._source(compile_, record)
            case "dynamo_output_graph":
                self._graph(compile_, record)
            case "compilation_metrics" | "bwd_compilation_metrics":
                self._metrics(compile_, record)

    def frame(self, ref: CompileRef) -> CodeFrame:
        """The code object that `ref` compiles."""
        return self.frames[ref.code_key]

    def code(self, ref: CompileRef) -> Frame | None:
        """The place of the code that `ref` compiles."""
        compile_ = self.compiles.get(ref)
        return (compile_.code or self.frame(ref).code) if compile_ else None

    def _begin(self, ref: CompileRef) -> CompileFacts:
        compile_ = self.compiles[ref] = CompileFacts(ref)
        self.frames.setdefault(ref.code_key, CodeFrame()).compiles.append(compile_)
        return compile_

    def _start(self, compile_: CompileFacts, record: Record) -> None:
        stack = record.frames("stack")
        self.files.note(stack)
        if stack and not _is_wrapper(stack[-1]):
            self._code(compile_, stack[-1])
        for key in [key for key in self._pending if key[0] == record.file]:
            del self._pending[key]

    def _code(self, compile_: CompileFacts, code: Frame) -> None:
        frame = self.frame(compile_.ref)
        frame.code = frame.code or code
        compile_.code = frame.code if frame.code == code else code

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

    def _source(self, compile_: CompileFacts, record: Record) -> None:
        data = record.fields
        key = record.file, _number(data.get("describer_id")), _number(data.get("id"))
        spec = self._pending.pop(key, None)
        source = data.get("source")
        if spec is None or not isinstance(source, str):
            return
        frame, source = self.frame(compile_.ref), sys.intern(source)
        compile_.described = True
        if frame.compiles[0] is compile_:
            frame.first[source] = spec
        elif frame.first.get(source) != spec:
            compile_.tensors[source] = spec

    def _graph(self, compile_: CompileFacts, record: Record) -> None:
        compile_.graphs += 1
        shape = shape_of(record.payload or "")
        compile_.shape = self._shapes.setdefault(shape, shape)

    def _metrics(self, compile_: CompileFacts, record: Record) -> None:
        data = record.fields
        numbers = {key: value for key in _NUMBERS if (value := record.number(key))}
        if record.event == "bwd_compilation_metrics":
            compile_.backward_us += numbers.get("duration_us", 0)
            return
        compile_.numbers = numbers
        reasons = data.get("restart_reasons")
        compile_.restarts = tuple(sorted(map(str, reasons))) if isinstance(reasons, list) else ()
        if '"assume_static_by_default": false' in record.text("dynamo_config"):
            self.frame(compile_.ref).dynamic = True
        if '"automatic_dynamic_shapes": false' in record.text("dynamo_config"):
            self.frame(compile_.ref).static = True
        if compile_.code is None and data.get("co_filename"):
            line = int(record.number("co_firstlineno"))
            self._code(compile_, Frame(str(data["co_filename"]), line, record.text("co_name")))
        compile_.seconds = record.number("entire_frame_compile_time_s") or numbers.get("duration_us", 0) / 1e6


def _is_wrapper(code: Frame) -> bool:
    """Whether `code` is what torch.compile puts around a function; the metrics name the function itself."""
    return code.function in _WRAPPERS and code.file.endswith(_OF_WRAPPERS)


def _sizes(value: Any) -> tuple[int | str, ...]:
    return tuple(size if isinstance(size, int) else str(size) for size in value) if isinstance(value, list) else ()


def _number(value: Any) -> int:
    return value if isinstance(value, int) else -1


_MEMBERS = 50  # members of a group that are kept
_GROUPS = 2000


@dataclass(frozen=True)
class SimilarMember:
    """One compile of a group, with the sizes that differ."""

    compile: CompileRef
    code: Frame | None
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SimilarGraphs:
    """Compiles with the same operations. `inputs`: the tensors that differ (``l_x_``), in the order of `sizes`."""

    count: int
    ops: int
    inputs: tuple[str, ...]
    members: tuple[SimilarMember, ...]
    seconds: float = 0.0  # time of all compiles but the first

    @property
    def one_function(self) -> bool:
        """Whether all compiles belong to the same code object."""
        return len({member.compile.code_key for member in self.members}) == 1


def _concrete(graph_input: GraphInput) -> tuple[str, ...]:
    """The sizes of `graph_input`, with all symbols equal."""
    return tuple(size if size.isdigit() else "s" for size in graph_input.sizes)


@dataclass
class _Group:
    count: int = 0
    seconds: float = 0.0
    members: list[tuple[CompileRef, tuple[GraphInput, ...]]] = field(default_factory=list)


@dataclass
class Similar:
    """Groups graphs with the same operations."""

    names: ClassVar = ("dynamo_output_graph",)

    index: CompileIndex
    groups: dict[GraphShape, _Group] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use a graph of Dynamo; `index` has already seen the record."""
        ref = ref_of(record)
        if record.event != "dynamo_output_graph" or ref is None:
            return
        compile_ = self.index.compiles[ref]
        if (
            compile_.shape is None
            or not compile_.shape.inputs
            or (compile_.shape not in self.groups and len(self.groups) >= _GROUPS)
        ):
            return
        group = self.groups.setdefault(compile_.shape, _Group())
        group.count += 1
        if len(group.members) < _MEMBERS:
            group.members.append((ref, inputs_of(record.payload or "")))

    def result(self) -> tuple[SimilarGraphs, ...]:
        """Groups of at least two graphs with different sizes, the slowest first."""
        similar = []
        for shape, group in self.groups.items():
            first, _ = group.members[0]
            process = first.log, first.rank, first.epoch
            alone = [one for one in group.members if (one[0].log, one[0].rank, one[0].epoch) == process]
            if len(alone) < 2:
                continue
            columns = list(zip(*(inputs for _, inputs in alone), strict=False))
            differing = [at for at, column in enumerate(columns) if len({_concrete(inputs) for inputs in column}) > 1]
            if not differing:
                continue
            members = tuple(
                SimilarMember(ref, self.index.code(ref), tuple(f"[{', '.join(inputs[at].sizes)}]" for at in differing))
                for ref, inputs in alone
            )
            names = tuple(columns[at][0].name for at in differing)
            seconds = sum(self.index.compiles[ref].seconds for ref, _ in alone[1:])
            similar.append(SimilarGraphs(group.count, shape.ops, names, members, seconds))
        return tuple(sorted(similar, key=lambda graphs: (-graphs.seconds, -graphs.count)))
