"""Edits that name a class or a function in place of its look-up in a registry."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repro_kit.source.slices import registry_keys
from repro_kit.source.tree import Edits, NumberedTree, Replacement


def registered(numbered: NumberedTree) -> Iterator[Edits]:
    """For each definition that a decorator registers under a text: its name wherever that text is looked up.

    ``MODELS.build("small", 3)`` becomes ``Small(3)``; ``MODELS["small"]`` and ``MODELS.get("small")(3)`` become the
    class and its call. The text does not show which of these a call is, so both are proposed.
    """
    for node in numbered.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for key in registry_keys(node):
                for makes in (True, False):
                    edits = _looked_up(numbered, node, key, makes)
                    if edits:
                        yield edits | dict.fromkeys(map(numbered.number, node.decorator_list))
                        yield edits


def _looked_up(
    numbered: NumberedTree, definition: ast.FunctionDef | ast.ClassDef, key: str, makes: bool
) -> dict[int, Replacement]:
    """The edits for each place with `key`; `makes`: a call passes its other arguments on."""
    name = ast.Name(definition.name, ast.Load())
    edits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        match node:
            case ast.Subscript(slice=ast.Constant(value=text), ctx=ast.Load()) if text == key:
                edits[number] = name
            case ast.Call(args=[ast.Constant(value=text), *rest]) if text == key and not _decorates(numbered, node):
                edits[number] = ast.Call(name, rest, node.keywords) if makes else name
    return edits


def _decorates(numbered: NumberedTree, call: ast.Call) -> bool:
    above = numbered.parent(call)
    return isinstance(above, ast.FunctionDef | ast.ClassDef) and call in above.decorator_list
