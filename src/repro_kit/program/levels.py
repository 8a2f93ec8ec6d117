"""Take the levels of torch.func (vmap, grad) out of a graph.

Dynamo writes a transform as calls that open and close a level, and calls that take values into the level and out of it
(torch/_functorch/vmap.py, torch/_functorch/eager_transforms.py).
"""

from __future__ import annotations

import ast

from repro_kit.program.effects import is_transform, op_name
from repro_kit.program.program import Program
from repro_kit.program.statement import Statement, canonical

_SAME_VALUE = ("_wrap_for_grad", "_unwrap_for_grad", "_remove_batch_dim")


def without_levels(program: Program) -> Program | None:
    """`program` without levels: of a batch its first element, and in place of a gradient the value it is taken of.

    None if the graph has no level. The values differ from those of `program`.
    """
    if not any(map(is_transform, program.graph.statements)):
        return None
    names: dict[str, str] = {}  # values that are replaced by another value
    differentiated: dict[str, str] = {}  # a tuple of gradients, and the value that they are taken of
    kept = []
    for statement in program.graph.statements:
        plain = statement.substitute(names)
        part, target, operand = plain.getitem, plain.target or "", _operand(plain)
        if is_transform(plain):
            continue
        if part is not None and part[0] in differentiated:
            names[target] = differentiated[part[0]]
        elif op_name(plain) in _SAME_VALUE and operand:
            names[target] = operand
        elif op_name(plain) == "_autograd_grad" and operand:
            differentiated[target] = operand
        else:
            kept.append(_first_element(plain) if op_name(plain) == "_add_batch_dim" else plain)
    graph = program.graph.with_(statements=tuple(kept), returns=program.graph.returns.substitute(names))
    return program.with_(graph=graph)


def _operand(statement: Statement) -> str:
    """The name that a call takes first, alone or as the first of a tuple; empty for none."""
    match statement.expression:
        case ast.Call(args=[ast.Name(id=name), *_]):
            return name
        case ast.Call(args=[ast.Tuple(elts=[ast.Name(id=name), *_]), *_]):
            return name
    return ""


def _first_element(statement: Statement) -> Statement:
    """``x.select(dim, 0)`` for ``_add_batch_dim(x, dim, level)``."""
    match statement.expression:
        case ast.Call(args=[ast.Name(id=value), dim, _]):
            return canonical(statement.target, ast.parse(f"{value}.select({ast.unparse(dim)}, 0)", mode="eval").body)
    return statement
