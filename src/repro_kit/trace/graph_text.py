"""The graphs that torch prints into a trace (``print_readable``), as far as insights ask of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_FORWARD = re.compile(r"^\s*def forward\(self(?:, )?(.*)\):\s*$")
_PARAM = re.compile(r'(\w+)(?:: "([^"]*)")?(?:, |$)')
_CALL = re.compile(r'^\s+(\w+)(?:: "[^"]*")? = (.*?)(?:;  [\w = ]+ = None)?(?:\s*#.*)?$')
_EFFECT = re.compile(r"^\s+((?:torch|operator|self)[\w.]*\(.*\))(?:;.*)?$")
_TENSOR = re.compile(r"^([a-z]\w*)\[([^\]]*)\]")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*|\d+(?:\.\d+)?(?:e-?\d+)?")
_SYMBOL = re.compile(r"^[su]\d+$")


@dataclass(frozen=True)
class GraphShape:
    """A graph without its names and sizes: equal for graphs with the same operations on the same kinds of tensors."""

    digest: str  # of the operations in order
    ops: int
    inputs: tuple[str, ...]  # "f32 x2 cpu": dtype, number of dimensions, device


@dataclass(frozen=True)
class GraphInput:
    """A tensor that goes into a graph, as printed: ``f32[s77, 4]``."""

    name: str
    dtype: str
    sizes: tuple[str, ...]
    device: str = ""


def inputs_of(text: str) -> tuple[GraphInput, ...]:
    """The tensors that the outermost graph takes."""
    for line in text.split("\n"):
        found = _FORWARD.match(line)
        if found:
            return tuple(_input(name, kind) for name, kind in _PARAM.findall(found[1]) if kind and _TENSOR.match(kind))
    return ()


def _input(name: str, kind: str) -> GraphInput:
    found = _TENSOR.match(kind)
    assert found
    sizes = tuple(size.strip() for size in found[2].split(",") if size.strip())
    return GraphInput(name, found[1], sizes, kind.rpartition("]")[2])


def shape_of(text: str) -> GraphShape:
    """What `text` computes, names and sizes apart."""
    names: set[str] = set()
    digest = hashlib.md5(usedforsecurity=False)
    ops = 0
    for line in text.split("\n"):
        forward = _FORWARD.match(line)
        if forward:
            names.update(name for name, _ in _PARAM.findall(forward[1]))
            digest.update(b"graph\n")
            continue
        found = _CALL.match(line)
        expression = found[2] if found else _effect(line)
        if expression is None:
            continue
        if found:
            names.add(found[1])
        if found and expression in names:
            continue
        ops += 1
        digest.update(_masked(expression, names).encode())
    kinds = tuple(f"{it.dtype} x{len(it.sizes)} {it.device}".strip() for it in inputs_of(text))
    return GraphShape(digest.hexdigest(), ops, kinds)


def _effect(line: str) -> str | None:
    found = _EFFECT.match(line)
    return found[1] if found else None


def _masked(expression: str, names: set[str]) -> str:
    """`expression` with ``%`` for a value of the graph and ``#`` for an integer or a symbol."""

    def mask(found: re.Match[str]) -> str:
        head, dot, rest = found[0].partition(".")
        if head.isdigit() and not rest:
            return "#"
        if _SYMBOL.match(head):
            return "#"
        return f"%{dot}{rest}" if head in names else found[0]

    return _NAME.sub(mask, expression)
