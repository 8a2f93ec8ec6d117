"""From the user's line to the kernel: what each kernel of the generated code was made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from repro_kit.failure.failure import Frame
from repro_kit.trace.graph_text import lines_of_nodes
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.places import CompileRef, ref_of, user_frame, users_own
from repro_kit.trace.record import Record

_MOST_GRAPHS = 200  # different ones
_EXAMPLES = 20  # compiles that are listed for one
_OPEN = 64  # graphs that wait for their code

#: The artifacts by what they are; the names are those of several releases.
_PRE_GRAD = ("before_pre_grad_graph", "inductor_pre_grad_graph", "dynamo_output_graph")
_POST_GRAD = ("inductor_post_grad_graph", "after_post_grad_graph")
_CODE = ("inductor_output_code", "inductor_aot_wrapper_code")
_MAPPINGS = "inductor_provenance_tracking_node_mappings"
_STACKS = "inductor_provenance_tracking_kernel_stack_traces"

_SOURCES = re.compile(r"^\s*(?:#|//) (?:Topologically Sorted |Unsorted )?Source Nodes: \[([^\]]*)\]")
_NUMBERED = re.compile(r"^\s*(?:#|//) \[Provenance debug handles\] (\S+)")
_MADE = re.compile(r"^\s*(?:#|//)\s+(\w+) => ([\w, ]+)$")
_DEFINED = re.compile(r"^(\w+) = async_compile\.\w+\(")
_LIBRARY = re.compile(r"\b((?:extern_kernels|aten|torch\.ops)\.[\w.]+|aoti_torch_(?:cpu|cuda|xpu|mps|call|proxy)\w*)\(")
_CALLED = re.compile(r"\b(?:call_)?(\w+)(?:\.run)?\(")
_FUSED = re.compile(r"^(?:triton|cpp|halide|mps)_")
_HANDLE = re.compile(r":\d+$")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,9}), in ([\w.<>]+)(?:\n|\\n)?([^\n]*)')


@dataclass(frozen=True)
class Kernel:
    """A kernel, or a call of a library's, in the generated code of one graph.

    `pre_grad`: the nodes of Dynamo's graph that it was made of; `post_grad`: those of the graph that Inductor lowered.
    """

    name: str
    pre_grad: tuple[str, ...] = ()
    post_grad: tuple[str, ...] = ()
    lines: tuple[Frame, ...] = ()  # of the user

    @property
    def known(self) -> bool:
        """Whether torch kept what the kernel was made of."""
        return bool(self.pre_grad or self.post_grad or self.lines)


@dataclass(frozen=True)
class GeneratedCode:
    """The kernels of one graph.

    `compiles`: those with equal kernels, as on the ranks of a job; none where torch wrote no compile id, as
    AOTInductor does. `mapped`: by the mappings or stacks that torch wrote (``INDUCTOR_PROVENANCE=1``); else by the
    comments in the generated code. `later`: not the first graph of its compile, so as a rule a backward.
    """

    compiles: tuple[CompileRef, ...]
    code: Frame | None
    kernels: tuple[Kernel, ...]
    mapped: bool = False
    later: bool = False
    count: int = 1


@dataclass(frozen=True)
class Provenance:
    """The generated code of all graphs."""

    graphs: tuple[GeneratedCode, ...] = ()
    left_out: int = 0


@dataclass
class _Graph:
    """What is known of one graph until the next one of its compile begins."""

    ref: CompileRef | None
    pre: Mapping[str, Frame | None]
    later: bool = False
    post: Mapping[str, Frame | None] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)  # by torch's name, with its number
    coded: bool = False
    mapped: bool = False

    def kernel(self, name: str, pre: Sequence[str], post: Iterable[str]) -> Kernel:
        """A kernel of these nodes. The comments of a backward name the nodes that Inductor lowered."""
        own = [node for node in pre if self.later and node in self.post]
        before = [node for node in pre if node and node not in own]
        lowered = tuple(dict.fromkeys((*post, *own)))
        frames = [*(self.post.get(node) for node in lowered), *(self.pre.get(node) for node in before)]
        return Kernel(name, tuple(before), lowered, tuple(dict.fromkeys(filter(None, frames))))


@dataclass
class Provenances:
    """Collects the kernels of each graph. The records of a graph follow each other: graphs, code, mappings, stacks."""

    names: ClassVar = (*_PRE_GRAD, *_POST_GRAD, *_CODE, _MAPPINGS, _STACKS)

    index: CompileIndex
    open: dict[object, _Graph] = field(default_factory=dict)
    found: dict[GeneratedCode, list[CompileRef]] = field(default_factory=dict)
    counts: dict[GeneratedCode, int] = field(default_factory=dict)
    left_out: int = 0

    def see(self, record: Record) -> None:
        """Use a graph, generated code, or what torch says of it."""
        ref, name = ref_of(record), record.name
        key, graph = self._graph(record, ref)
        payload = record.payload or ""
        if name in _PRE_GRAD:
            self._begin(key, _Graph(ref, lines_of_nodes(payload)))
        elif name in _POST_GRAD and graph.coded:
            self._begin(key, _Graph(ref, {}, later=True, post=lines_of_nodes(payload)))
        elif name in _POST_GRAD:
            graph.post = lines_of_nodes(payload)
        elif name in _CODE:
            graph.coded = True
            graph.kernels |= _in_code(graph, payload)
        elif name == _MAPPINGS:
            _use_mappings(graph, record.json())
        else:
            _use_stacks(graph, record.json())

    def result(self) -> Provenance:
        """The graphs with kernels, in their order."""
        for graph in self.open.values():
            self._close(graph)
        self.open.clear()
        graphs = (replace(same, compiles=tuple(refs), count=self.counts[same]) for same, refs in self.found.items())
        return Provenance(tuple(graphs), self.left_out)

    def _graph(self, record: Record, ref: CompileRef | None) -> tuple[object, _Graph]:
        key = ref or (record.file, record.epoch)
        return key, self.open.get(key) or self._begin(key, _Graph(ref, {}))

    def _begin(self, key: object, graph: _Graph) -> _Graph:
        if key in self.open:
            self._close(self.open.pop(key))
        elif len(self.open) >= _OPEN:
            self._close(self.open.pop(next(iter(self.open))))
        self.open[key] = graph
        return graph

    def _close(self, graph: _Graph) -> None:
        if not graph.kernels:
            return
        code = self.index.code(graph.ref) if graph.ref else None
        same = GeneratedCode((), code, tuple(graph.kernels.values()), graph.mapped, graph.later)
        if same not in self.found and len(self.found) >= _MOST_GRAPHS:
            self.left_out += 1
            return
        refs = self.found.setdefault(same, [])
        self.counts[same] = self.counts.get(same, 0) + 1
        if graph.ref and len(refs) < _EXAMPLES:
            refs.append(graph.ref)


def _in_code(graph: _Graph, code: str) -> dict[str, Kernel]:
    """The kernels that generated code defines or calls, with the nodes that the comments before them name."""
    found: dict[str, Kernel] = {}
    sources: list[str] | None = None
    made: dict[str, list[str]] = {}
    handle = ""
    for line in code.split("\n"):
        if numbered := _NUMBERED.match(line):
            handle = numbered[1]
        elif comment := _SOURCES.match(line):
            sources, made = [name.strip() for name in comment[1].split(",")], {}
        elif part := _MADE.match(line) if " => " in line else None:
            made[part[1]] = part[2].split(", ")
        elif defined := _DEFINED.match(line):
            post = dict.fromkeys(node for source in sources or () for node in made.get(source, ()))
            found[defined[1]] = graph.kernel(defined[1], sources or (), tuple(post))
            sources = None
        elif sources is not None and not line.lstrip().startswith(("#", "//")):
            sources = _called(graph, line, sources, found, handle)
    return found


def _called(graph: _Graph, line: str, sources: list[str], found: dict[str, Kernel], handle: str) -> list[str] | None:
    """Use a line after a comment that names `sources`. Returns them while their kernel has not come."""
    if library := _LIBRARY.search(line):
        key = handle if handle.startswith(library[1]) and handle not in found else f"{library[1]}#{len(found)}"
        found[key] = graph.kernel(library[1], sources, ())
        return None
    for called in _CALLED.finditer(line):
        name = called[1]
        if name in found or _FUSED.match(name):
            if name not in found or not found[name].known:
                found[name] = graph.kernel(name, sources, ())
            return None
    return sources


def _use_mappings(graph: _Graph, data: Any) -> None:
    mappings = data if isinstance(data, dict) else {}
    kernels = _lists(mappings.get("cppCodeToPost")) or _lists(mappings.get("pyCodeToPost"))
    pre_of = _lists(mappings.get("postToPre"))
    mapped = {}
    for name, post in kernels.items():
        pre = dict.fromkeys(before for node in post for before in pre_of.get(node, ()))
        mapped[name] = graph.kernel(_HANDLE.sub("", name), tuple(pre), post)
    if mapped:
        told = {kernel.name for kernel in mapped.values()}
        graph.kernels = {**mapped, **{at: one for at, one in graph.kernels.items() if one.name not in told}}
        graph.mapped = graph.coded = True


def _use_stacks(graph: _Graph, data: Any) -> None:
    for name, stacks in _lists(data).items():
        at = name if name in graph.kernels else _HANDLE.sub("", name)
        lines = tuple(dict.fromkeys(_users_lines(stacks)))
        if lines and at in graph.kernels:
            graph.kernels[at] = replace(graph.kernels[at], lines=lines)
            graph.mapped = True


def _lists(data: Any) -> dict[str, list[str]]:
    """The lists of texts in `data`, by name."""
    return {
        str(name): [str(text) for text in texts]
        for name, texts in (data.items() if isinstance(data, dict) else ())
        if isinstance(texts, list)
    }


def _users_lines(stacks: Iterable[str]) -> Iterator[Frame]:
    """The user's line of each stack."""
    for stack in stacks:
        frames = [
            Frame(file, int(line), function, code.strip().removesuffix("\\n"))
            for file, line, function, code in _FRAME.findall(stack)
        ]
        where = users_own(frames) or user_frame(frames) or (frames[-1] if frames else None)
        if where:
            yield where
