"""The total order that decides which of two source programs is smaller."""

from __future__ import annotations

import ast

from repro_kit.source.tree import LEAVES, SourceProgram, preorder


def measure(program: SourceProgram) -> tuple[int, ...]:
    """The criteria, most important first: statements, nodes, weight of the literals, length of the text.

    Tuples compare lexicographically, and smaller is better.
    """
    statements = nodes = literals = 0
    for node in preorder(program.tree):
        if isinstance(node, LEAVES):
            continue
        nodes += 1
        statements += isinstance(node, ast.stmt) and not isinstance(node, ast.Pass)
        if isinstance(node, ast.Constant):
            literals += weight(node.value)
    return statements, nodes, literals, len(program.text)


def weight(value: object) -> int:
    """How far a literal is from the plainest one; sizes and numbers count by their magnitude."""
    if isinstance(value, int):
        return abs(int(value)) if abs(int(value)) < 1 << 16 else 1 << 16
    if isinstance(value, float | complex):
        return 2 + len(repr(value))
    if isinstance(value, str | bytes):
        return len(value)
    return 0
