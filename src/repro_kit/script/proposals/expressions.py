"""Edits of expressions: an operand or a constant in place of an expression, a plainer literal, a smaller size."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from repro_kit.reduce.proposing import EXACT, powers_of_ten
from repro_kit.script.compile_calls import is_partial
from repro_kit.script.proposals.structure import first_of, is_kept
from repro_kit.script.tree import DRAWS, Edits, NumberedTree, Replacement, bound_by, weight

#: The value of a literal that a candidate may have.
Literal: TypeAlias = str | int | float | None

_NUMBERS = (0, 1, 2, 3, 4, 8, 16)
_MAKERS = ("empty", "full", "ones", "rand", "randn", "zeros")  # of a tensor: what they are given first is its shape
#: Modules of torch.nn that are made for sizes: those are their first two arguments, or have such a name.
_SIZED = re.compile(r"(?:Lazy)?(?:Bil|L)inear|Conv\w+|Embedding\w*|\w+Norm\w*|(?:RNN|LSTM|GRU)\w*|MultiheadAttention")
_SIZE_NAMES = re.compile(r"\w+_(?:features|channels|size|dim|embeddings|groups|heads)|d_model")
_ENDS = ("SystemExit", "sys.exit", "exit")

#: The fields of an expression that hold its operands.
_OPERANDS: dict[type[ast.expr], tuple[str, ...]] = {
    ast.BinOp: ("left", "right"),
    ast.BoolOp: ("values",),
    ast.UnaryOp: ("operand",),
    ast.Compare: ("left", "comparators"),
    ast.IfExp: ("body", "orelse"),
    ast.Attribute: ("value",),
    ast.Await: ("value",),
    ast.NamedExpr: ("value",),
    ast.Subscript: ("value",),
    ast.YieldFrom: ("value",),
    ast.Yield: ("value",),
    ast.List: ("elts",),
    ast.Tuple: ("elts",),
    ast.Set: ("elts",),
    ast.Lambda: ("body",),
}


def recorded(numbered: NumberedTree, values: Mapping[str, ast.expr]) -> dict[int, Replacement]:
    """For each expression that returned a number or a text: that. `values`: by the text of the expression."""
    edits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        if isinstance(node, ast.Call | ast.Attribute | ast.Subscript) and _may_change(numbered, node):
            value = values.get(ast.unparse(node))
            if isinstance(value, ast.Constant) and value.value is not None:
                edits[number] = value
    return edits


def simpler(numbered: NumberedTree, values: Mapping[str, ast.expr]) -> Iterator[list[Edits]]:
    """For each expression, the outermost first: what may take its place. `values`: recorded ones, by text."""
    modules = _modules(numbered)
    for number, node in enumerate(numbered.nodes):
        if isinstance(node, ast.expr) and _may_change(numbered, node):
            value = (
                values.get(ast.unparse(node)) if isinstance(node, ast.Call | ast.Attribute | ast.Subscript) else None
            )
            edits: list[Edits] = [] if value is None else [{number: value}]
            edits += [{number: operand} for operand in _operands(node) if not _is_one_of(operand, modules)]
            edits += [{number: ast.Constant(value)} for value in _constants(numbered, node)]
            if edits:
                yield edits


def _modules(numbered: NumberedTree) -> set[str]:
    """The imported names of which the script reads attributes: modules, which no expression has as its value."""
    read = {
        node.value.id for node in numbered.nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return read & {bound_by(node) for node in numbered.nodes if isinstance(node, ast.alias)}


def _is_one_of(value: ast.expr, names: set[str]) -> bool:
    return isinstance(value, ast.Name) and value.id in names


def _may_change(numbered: NumberedTree, node: ast.expr) -> bool:
    """Whether the expression is a value, and not a target, the name that is called, or part of a kept argument."""
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    above: ast.AST | None = node
    while isinstance(above, ast.expr | ast.keyword):
        if is_kept(above):
            return False
        above = numbered.parent(above)
    return True


def _operands(node: ast.expr) -> list[ast.expr]:
    """The expressions within `node` that may take its place."""
    match node:
        case ast.Call(func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[items])]):
            values = [first_of(items), items]
        case ast.Call(func=called, keywords=given) if is_partial(called) and any(map(is_kept, given)):
            values = []  # without the argument it would be another failure
        case ast.Call():
            called = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            alone = [only for value in node.args for only in _only_item(value)]
            values = [*alone, *node.args, *(keyword.value for keyword in node.keywords), called]
        case ast.Subscript(value=ast.Dict(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts)):
            values = [*parts, node.value]
        case ast.Dict():
            values = [*node.values, *_shorter_dicts(node)]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            values = [node.generators[0].iter]
        case ast.JoinedStr():
            values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        case _:
            fields = [getattr(node, name) for name in _OPERANDS.get(type(node), ())]
            values = [value for field in fields for value in (field if isinstance(field, list) else [field])]
    return [value.value if isinstance(value, ast.Starred) else value for value in values if value is not None]


def _only_item(value: ast.expr) -> list[ast.expr]:
    """The item of a list or a tuple of one."""
    return value.elts if isinstance(value, ast.List | ast.Tuple) and len(value.elts) == 1 else []


def _shorter_dicts(node: ast.Dict) -> Iterator[ast.expr]:
    for at in reversed(range(len(node.values))):
        yield ast.Dict([*node.keys[:at], *node.keys[at + 1 :]], [*node.values[:at], *node.values[at + 1 :]])


def _constants(numbered: NumberedTree, node: ast.expr) -> Iterator[Literal]:
    parent = numbered.parent(node)
    is_called = (isinstance(parent, ast.Call) and parent.func is node) or _is_decorator(parent, node)
    if isinstance(node, ast.Constant) or is_called or isinstance(parent, ast.Attribute | ast.ClassDef | ast.Expr):
        return
    if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert) and getattr(parent, "test", None) is node:
        yield from (True, False)
        return
    if not isinstance(node, ast.Name):
        yield from (None, 1, 2)  # torch makes no symbol of a size of 0 or 1


def _is_decorator(parent: ast.AST | None, node: ast.expr) -> bool:
    return node in getattr(parent, "decorator_list", ())


def drawn(numbered: NumberedTree) -> list[Edits]:
    """For each tensor of random numbers: one of ones, so that no run fails, or passes, by chance."""
    return [
        {numbered.number(called): ast.Attribute(called.value, DRAWS[called.attr], ast.Load())}
        for node in numbered.nodes
        if isinstance(node, ast.Call) and isinstance(called := node.func, ast.Attribute) and called.attr in DRAWS
        if _may_change(numbered, node) and all(keyword.arg != "generator" for keyword in node.keywords)
    ]


def literals(numbered: NumberedTree) -> Iterator[list[Edits]]:
    """For each literal: plainer ones."""
    for number, node in enumerate(numbered.nodes):
        if isinstance(node, ast.Constant) and _may_change(numbered, node):
            edits = [{number: ast.Constant(value)} for value in _plainer_at(numbered, [number])]
            if edits:
                yield list(edits)


def _plainer_at(numbered: NumberedTree, numbers: Sequence[int]) -> list[Literal]:
    """What may take the place of the literal at all `numbers`. No size becomes 0: an empty tensor is a special case."""
    nodes = [numbered.nodes[number] for number in numbers]
    if any(_is_last_words(numbered, node) for node in nodes):
        return [1]
    values = _plainer(nodes[0].value) if isinstance(nodes[0], ast.Constant) else []
    return [value for value in values if value != 0] if any(_is_size(numbered, node) for node in nodes) else values


def _is_last_words(numbered: NumberedTree, node: ast.AST) -> bool:
    """Whether the literal is a text with which the script ends: 1 is the plainest end that tells of a failure."""
    above = numbered.parent(node)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text and isinstance(above, ast.Call) and ast.unparse(above.func) in _ENDS


def _is_size(numbered: NumberedTree, node: ast.AST) -> bool:
    """Whether the literal is a size of a tensor or a module that is made here: an argument, or part of a sequence."""
    above = numbered.parent(node)
    shape, above = (above, numbered.parent(above)) if isinstance(above, ast.Tuple | ast.List) else (node, above)
    name = above.arg or "" if isinstance(above, ast.keyword) else ""
    call = numbered.parent(above) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call):
        return False
    called = ast.unparse(call.func).rpartition(".")[2]
    if called in _MAKERS:
        return shape in call.args[: 1 if called == "full" else None]
    return bool(_SIZED.fullmatch(called)) and (shape in call.args[:2] or bool(_SIZE_NAMES.fullmatch(name)))


def _plainer(value: object) -> list[Literal]:
    if isinstance(value, bool) or value is None or value is Ellipsis:
        return []
    if isinstance(value, int):
        less = (value - 1,) if value <= EXACT else ()  # of a large one, one less is not plainer
        near: list[Literal] = [*_NUMBERS, *powers_of_ten(_NUMBERS[-1], value), value // 2, *less]
    elif isinstance(value, float):
        near = [0.0, 1.0, 0.5, 2.0, round(value, 1)]
    elif isinstance(value, str):
        near = ["", "a"]
    else:
        near = []
    return [other for other in dict.fromkeys(near) if weight(other) < weight(value)]


def sizes(numbered: NumberedTree) -> Iterator[list[Edits]]:
    """For each number that occurs several times: a smaller one in all its places."""
    places: dict[int, list[int]] = {}
    for number, node in enumerate(numbered.nodes):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
            places.setdefault(node.value, []).append(number)
    for _, numbers in sorted(places.items(), reverse=True):
        if len(numbers) > 1:
            yield [dict.fromkeys(numbers, ast.Constant(smaller)) for smaller in _plainer_at(numbered, numbers)]
