"""Parse the graphs that torch prints into a trace (``print_readable``), as far as insights need."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import parse
from repro_kit.trace.record import Record, ask

_FORWARD = re.compile(r"^\s*def forward\(self(?:, )?(.*)\):\s*$")
_PARAM = re.compile(r'(\w+)(?:: "([^"]*)")?(?:, |$)')
_CALL = re.compile(r'^\s+(\w+)(?:: "[^"]*")? = (.*?)(?:;  [\w = ]+ = None)?(?:\s*#.*)?$')
_EFFECT = re.compile(r"^\s+((?:torch|operator|self)[\w.]*\(.*\))(?:;.*)?$")
_TENSOR = re.compile(r"^([a-z]\w*)\[([^\]]*)\]")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*|\d+(?:\.\d+)?(?:e-?\d+)?")
_PLACE = re.compile(r"^\s*# File: (?P<file>.+?):(?P<line>\d{1,9}) in (?P<function>[^,]+), code: (?P<code>.*)$")
_SYMBOL = re.compile(r"^[su]\d+$")
#: Operators with sizes among their arguments. An integer of any other one says what it computes (``dim=1``, ``x * 2``).
_OF_SIZES = {
    *("view", "_unsafe_view", "reshape", "unflatten", "expand", "repeat", "tile", "broadcast_to", "as_strided"),
    *("slice", "narrow", "split", "split_with_sizes", "getitem", "pad", "constant_pad_nd", "interpolate"),
    *("zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "empty_strided"),
    *("new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided"),
}  # fmt: skip
_CALLED = re.compile(r"^([\w.]+)\(")
_INDEXED = re.compile(r"^\w+\[")


@dataclass(frozen=True)
class GraphShape:
    """A graph without names and sizes.

    Equal for graphs with the same operations on the same kinds of tensors.
    """

    digest: str  # of the operations in order
    ops: int
    inputs: tuple[str, ...]  # "f32 x2 cpu": dtype, number of dimensions, device


@dataclass(frozen=True)
class GraphInput:
    """An input tensor of a graph, as printed: ``f32[s77, 4]``."""

    name: str
    dtype: str
    sizes: tuple[str, ...]
    device: str = ""


@dataclass(frozen=True)
class Statement:
    """An operation of a graph as printed, without the kind of its result, and the user's line that it comes from."""

    text: str
    where: Frame | None = None


def statements_of(text: str) -> Iterator[Statement]:
    """The operations of all graphs in `text`, in order; another name for an input is none."""
    where = None
    inputs: set[str] = set()
    for line in text.split("\n"):
        place, call, forward = _PLACE.match(line), _CALL.match(line), _FORWARD.match(line)
        if forward:
            inputs.update(name for name, _ in _PARAM.findall(forward[1]))
        elif place:
            where = Frame(place["file"], int(place["line"]), place["function"], place["code"].strip())
        elif call and call[2] not in inputs:
            yield Statement(f"{call[1]} = {call[2]}", where)
        elif (effect := _effect(line)) is not None:
            yield Statement(effect, where)


_NODE = re.compile(r"^\s*# (?:File: |No stacktrace).*$|^\s+(\w+)(?:: \"[^\"]*\")? = ", re.MULTILINE)


def lines_of_nodes(text: str) -> dict[str, Frame | None]:
    """The nodes of a printed graph, each with the line that it was traced from, where the graph tells one."""
    nodes: dict[str, Frame | None] = {}
    where = None
    for found in _NODE.finditer(text):
        if found[1]:
            nodes.setdefault(found[1], where)
        else:
            place = _PLACE.match(found[0])
            where = place and Frame(place["file"], int(place["line"]), place["function"], place["code"].strip())
    return nodes


def inputs_of(text: str) -> tuple[GraphInput, ...]:
    """The input tensors of the outermost graph."""
    for line in text.split("\n"):
        match = _FORWARD.match(line)
        if match:
            return tuple(_input(name, kind) for name, kind in _PARAM.findall(match[1]) if kind and _TENSOR.match(kind))
    return ()


def _input(name: str, kind: str) -> GraphInput:
    match = _TENSOR.match(kind)
    assert match
    sizes = tuple(size.strip() for size in match[2].split(",") if size.strip())
    return GraphInput(name, match[1], sizes, kind.rpartition("]")[2])


def shape_of(text: str) -> GraphShape:
    """The shape of the graph in `text`, without names and sizes."""
    names: set[str] = set()
    digest = hashlib.md5(usedforsecurity=False)
    ops = 0
    for line in text.split("\n"):
        forward = _FORWARD.match(line)
        if forward:
            names.update(name for name, _ in _PARAM.findall(forward[1]))
            digest.update(b"graph\n")
            continue
        match = _CALL.match(line)
        expression = match[2] if match else _effect(line)
        if expression is None:
            continue
        if match:
            names.add(match[1])
        if match and expression in names:
            continue
        ops += 1
        digest.update(_masked(expression, names).encode())
    kinds = tuple(
        f"{graph_input.dtype} x{len(graph_input.sizes)} {graph_input.device}".strip() for graph_input in inputs_of(text)
    )
    return GraphShape(digest.hexdigest(), ops, kinds)


def _effect(line: str) -> str | None:
    match = _EFFECT.match(line)
    return match[1] if match else None


def _masked(expression: str, names: set[str]) -> str:
    """`expression` with ``%`` for a value of the graph and ``#`` for a symbol, or an integer that may be a size."""
    called = _CALLED.match(expression)
    words = called[1].split(".") if called else []
    operator = words[1:] if words and words[0] in names else words
    has_sizes = not _OF_SIZES.isdisjoint(operator) or bool(_INDEXED.match(expression))

    def mask(match: re.Match[str]) -> str:
        head, dot, rest = match[0].partition(".")
        if head.isdigit() and not rest and has_sizes:
            return "#"
        if _SYMBOL.match(head):
            return "#"
        return f"%{dot}{rest}" if head in names else match[0]

    return _NAME.sub(mask, expression)


_AT = re.compile(r"^\s*# File: (?P<file>.+?):(?P<line>\d+) in (?P<function>[^,]+), code:")


@dataclass(frozen=True)
class CodeOrigin:
    """A statement of a graph, and the line that it was traced from."""

    compile_id: str
    statement: str
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class CompiledFrame:
    """A frame that Dynamo compiled, from its code object, and the compile time."""

    compile_id: str
    name: str
    file: str
    first_line: int
    seconds: float = 0.0


@dataclass
class UserCode:
    """All origins and frames, in order. `breaks`: (file, line) of graph breaks."""

    origins: list[CodeOrigin] = field(default_factory=list)
    frames: list[CompiledFrame] = field(default_factory=list)
    breaks: list[tuple[str, int]] = field(default_factory=list)

    def see(self, record: Record) -> None:
        """Use the comments in a graph, the frame of a finished compile, the place of a graph break."""
        compile_id = record.compile_id or ""
        if record.event == "dynamo_output_graph" and record.payload:
            self.origins += _origins(compile_id, record.payload)
        elif record.event == "compilation_metrics":
            name, file, line = record.text("co_name"), record.text("co_filename"), int(record.number("co_firstlineno"))
            if name and file and line:
                seconds = record.number("entire_frame_compile_time_s")
                self.frames.append(
                    CompiledFrame(record.text("compile_id") or compile_id, name, file, line, float(seconds))
                )
        elif record.name == "dynamo_graph_break_reason" and record.payload:
            where = parse(record.payload).where
            self.breaks += [(where.file, where.line)] if where else []


def user_code(records: Iterable[Record]) -> UserCode:
    """The origins of the graphs in a trace."""
    return ask(UserCode(), records)


def _origins(compile_id: str, text: str) -> list[CodeOrigin]:
    """The statements in a graph's text, each with the comment before it."""
    origins: list[CodeOrigin] = []
    at: re.Match[str] | None = None
    for line in text.splitlines():
        comment = _AT.match(line)
        if comment:
            at = comment
        elif at is not None and " = " in line:
            origins.append(CodeOrigin(compile_id, line.strip(), at["file"], int(at["line"]), at["function"]))
    return origins
