"""Lists that belong together: the first tensor of one goes with the first of any other, as in `torch._foreach_add`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from repro_kit.program.program import Program
from repro_kit.program.statement import Statement, canonical, tuple_of

_PAIRED = ("_foreach_", "_fused_", "_amp_foreach_")  # operators that return a list as long as their arguments


def lengths(program: Program) -> list[int]:
    """The lengths above 1 of the lists of tensors that belong together, longest first."""
    found = {len(each) for statement in program.graph.statements for each in _lists_of_names(statement)}
    return sorted((length for length in found if length > 1), reverse=True)


def shortened(program: Program, length: int, kept: Sequence[int]) -> Program | None:
    """`program` with these elements alone of all lists that have `length` elements and belong together.

    What is made of the other elements is gone, with the statements that read it; None if nothing is returned then.
    """
    results: set[str] = set()  # the lists that shortened calls return
    gone: set[str] = set()
    left_out: set[str] = set()  # of the lists; what nothing else makes is still there, and nobody asks for it
    statements: list[Statement] = []
    for statement in program.graph.statements:
        changed = _shortened(statement, length, kept)
        if changed is not statement and statement.target is not None and _is_paired(statement):
            results.add(statement.target)
        left_out |= set(statement.reads) - set(changed.reads)
        part = statement.getitem
        if part is not None and part[0] in results:
            if part[1] in kept:
                statements.append(Statement(statement.target, f"{part[0]}[{kept.index(part[1])}]"))
                continue
            gone.add(statement.target or "")
        elif gone.isdisjoint(changed.reads):
            statements.append(changed)
        else:
            gone.add(statement.target or "")
    function = program.graph
    outputs = [name for name in function.outputs if name not in gone | left_out]
    if not outputs:
        return None
    returns = function.returns if len(outputs) == len(function.outputs) else tuple_of(outputs)
    return program.with_(graph=function.with_(statements=tuple(statements), returns=returns))


def _lists_of_names(statement: Statement) -> Iterator[Sequence[ast.expr]]:
    """The lists of tensors among the arguments of a call that has several, or whose lists always belong together."""
    call = statement.expression
    if not isinstance(call, ast.Call):
        return
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    found = [argument.elts for argument in arguments if isinstance(argument, ast.List | ast.Tuple)]
    tensors = [elements for elements in found if elements and all(isinstance(each, ast.Name) for each in elements)]
    if _is_paired(statement) or len({len(elements) for elements in tensors}) < len(tensors):
        yield from tensors


def _is_paired(statement: Statement) -> bool:
    return any(name in statement.callee for name in _PAIRED)


def _shortened(statement: Statement, length: int, kept: Sequence[int]) -> Statement:
    call = statement.expression
    if not isinstance(call, ast.Call) or length not in map(len, _lists_of_names(statement)):
        return statement

    def change(argument: ast.expr) -> ast.expr:
        if not isinstance(argument, ast.List | ast.Tuple) or len(argument.elts) != length:
            return argument
        return type(argument)([argument.elts[at] for at in kept], ast.Load())

    keywords = [ast.keyword(keyword.arg, change(keyword.value)) for keyword in call.keywords]
    return canonical(statement.target, ast.Call(call.func, list(map(change, call.args)), keywords))
