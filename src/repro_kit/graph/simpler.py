"""Simpler forms of a graph: no levels of torch.func, shorter lists, fewer arguments, public names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from repro_kit.graph.effects import is_transform, op_name
from repro_kit.graph.hops import operand_lists
from repro_kit.graph.program import Function, Program, Statement, canonical, reached, tuple_of

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


_PAIRED = ("_foreach_", "_fused_", "_amp_foreach_")  # operators that return a list as long as their arguments


def lengths(program: Program) -> list[int]:
    """The lengths above 1 of the lists of tensors that belong together, longest first."""
    found = {len(each) for statement in program.graph.statements for each in _lists_of_names(statement)}
    return sorted((length for length in found if length > 1), reverse=True)


def shortened(program: Program, length: int, kept: Sequence[int]) -> Program | None:
    """`program` with these elements alone of all lists that have `length` elements and belong together.

    What is made of the other elements is gone, with the statements that read it; None if no result is left. A step of
    an optimizer returns nothing, and writes.
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
    if function.outputs and not outputs:
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


_MOST_ELEMENTS = 16  # elements of a list that are dropped one at a time
_OVERLOADED = "torch.ops.aten."
#: Private homes of functions, and their public homes (torch/nn/functional.py, torch/linalg, torch/fft, torch/special).
_HOMES = {
    "torch._C._nn.": ("torch.nn.functional.", "torch."),
    "torch._C._linalg.linalg_": ("torch.linalg.",),
    "torch._C._fft.fft_": ("torch.fft.",),
    "torch._C._special.special_": ("torch.special.",),
    "torch.nested._internal.nested_tensor.nested_view_from_values_offsets_lengths": (
        "torch.nested.nested_tensor_from_jagged",
    ),
}


def fewer_arguments(statement: Statement) -> Iterator[Statement]:
    """`statement` with one argument dropped or made plainer. Some forms are invalid: the caller must try each."""
    call = statement.expression
    if not isinstance(call, ast.Call):
        return
    for args, keywords in _lesser(call.args, call.keywords, operand_lists(statement.callee)):
        yield canonical(statement.target, ast.Call(call.func, args, keywords))


def _lesser(
    args: Sequence[ast.expr], keywords: Sequence[ast.keyword], lists: Sequence[int]
) -> Iterator[tuple[list[ast.expr], list[ast.keyword]]]:
    """Fewer or plainer arguments; those at `lists` stay lists: rows of a tensor are other operands."""
    for at in range(len(keywords)):
        yield list(args), [*keywords[:at], *keywords[at + 1 :]]
    if len(args) > 1:
        yield list(args[:-1]), list(keywords)
    for at, arg in enumerate(args):
        for plainer in _plainer(arg):
            if at in lists and not isinstance(plainer, ast.List | ast.Tuple):
                continue
            yield [*args[:at], plainer, *args[at + 1 :]], list(keywords)
    for at, keyword in enumerate(keywords):
        for plainer in _plainer(keyword.value):
            yield list(args), [*keywords[:at], ast.keyword(keyword.arg, plainer), *keywords[at + 1 :]]


def _plainer(value: ast.expr) -> Iterator[ast.expr]:
    """Plainer values: None, an empty container, its only or its first element, one element less; 1 for another number.

    All numbers of a list become 1 or 2 at once.
    """
    match value:
        case ast.Dict(keys=[_, *_]):
            yield ast.Constant(None)
            yield ast.Dict([], [])
            for at in range(min(len(value.keys), _MOST_ELEMENTS)):
                yield ast.Dict([*value.keys[:at], *value.keys[at + 1 :]], [*value.values[:at], *value.values[at + 1 :]])
        case ast.Tuple(elts=[_, *_]) | ast.List(elts=[_, *_]):
            make = type(value)
            yield ast.Constant(None)
            yield make([], ast.Load())
            yield value.elts[0] if len(value.elts) == 1 else make(value.elts[:1], ast.Load())
            if all(isinstance(each, ast.Constant) and type(each.value) in (int, float) for each in value.elts):
                for number in (1, 2):
                    yield make([ast.Constant(number) for _ in value.elts], ast.Load())
            for at in range(min(len(value.elts), _MOST_ELEMENTS) if len(value.elts) > 1 else 0):
                yield make([*value.elts[:at], *value.elts[at + 1 :]], ast.Load())
        case ast.Constant(value=int() | float() as number) if number not in (0, 1):
            yield ast.Constant(1)


def public_forms(statement: Statement) -> Iterator[Statement]:
    """`statement` with public names of its operator, likeliest first. Some of the names do not exist."""
    call = statement.expression
    if not isinstance(call, ast.Call):
        return
    callee = ast.unparse(call.func)
    if callee.startswith(_OVERLOADED) and callee.count(".") == 4:
        name = callee.split(".")[3]
        for home in ("torch.", "torch.nn.functional."):
            yield _called(statement, home + name, call.args, call.keywords)
        if call.args and isinstance(call.args[0], ast.Name):
            yield _called(statement, f"{call.args[0].id}.{name}", call.args[1:], call.keywords)
    if callee == "torch.ops.prims.convert_element_type.default" and len(call.args) == 2:
        yield _called(statement, f"{ast.unparse(call.args[0])}.to", call.args[1:], [])
    for private, homes in _HOMES.items():
        if callee.startswith(private):
            for home in homes:
                yield _called(statement, home + callee.removeprefix(private), call.args, call.keywords)


def _called(statement: Statement, callee: str, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> Statement:
    function = ast.parse(callee, mode="eval").body
    return canonical(statement.target, ast.Call(function, list(args), list(keywords)))


def with_statements(program: Program, name: str, new: dict[str, Statement]) -> Program:
    """`program` with some statements of the function `name` replaced. `new`: old line -> new statement."""

    def change(function: Function) -> Function:
        return function.mapped(lambda old: new.get(old.line, old)) if function.name == name else function

    changed = program.mapped(change)
    return changed.with_(bodies=reached(changed.bodies, changed.graph))
