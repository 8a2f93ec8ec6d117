"""Have a script record what its expressions return, and put these values in their places."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from repro_kit.script.tree import Edits, NumberedTree, Replacement, Script

_Values = Mapping[int, str | None]
_WORD = 20  # characters of a text that may take the place of an expression
_DEPTHS = (1, 2, 4)  # how many of the innermost calls may go


@dataclass(frozen=True)
class Recorded:
    """The values of expressions, and the first items of loops, by the number of the expression; None: no one text.

    `reads`: for each read of data, the calls that ran then, outermost first.
    """

    values: _Values = field(default_factory=dict)
    items: _Values = field(default_factory=dict)
    reads: tuple[tuple[int, ...], ...] = ()

    def by_text(self, program: Script) -> RecordedTexts:
        """The values in the form that stays right while the script changes; `program`: the one that ran."""
        numbered = NumberedTree(program)
        return RecordedTexts(_only(numbered, self.values), _only(numbered, self.items))


@dataclass(frozen=True)
class RecordedTexts:
    """The values of expressions, and the first items of loops, by the text of the expression."""

    values: Mapping[str, ast.expr]
    items: Mapping[str, ast.expr]


def read_recorded(data: bytes) -> Recorded:
    """The probe's recording; nothing if it is damaged."""
    try:
        written = orjson.loads(data)
        values, items = ({int(key): text for key, text in written[name].items()} for name in ("values", "items"))
        return Recorded(values, items, tuple(map(tuple, written["reads"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Recorded()


def instrumented(program: Script) -> str:
    """The script with a call around every expression whose value is recorded."""
    numbered = NumberedTree(program)
    edits: dict[int, ast.AST] = {}
    for number, node in enumerate(numbered.nodes):
        parent = numbered.parent(node)
        is_loop = isinstance(parent, ast.For) and parent.iter is node
        if _may_wrap(node, parent) and _is_value(numbered, node):
            is_call = isinstance(node, ast.Call)
            begun = _call("__begun__", ast.Constant(number)) if is_call else ast.Constant(number)
            edits[number] = _call("__called__" if is_call else "__value__", begun, node)
        if is_loop:
            edits[number] = _call("__items__", ast.Constant(number), edits.get(number, node))
    made = numbered.edited(edits)
    return program.text if made is None else made.text


def _may_wrap(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether a call may stand around the expression, as far as its own form goes."""
    match node:
        case ast.Call(func=function):
            return not (isinstance(function, ast.Name) and function.id == "super")
        case ast.Attribute(ctx=ast.Load()) | ast.Subscript(ctx=ast.Load()):
            is_method = isinstance(parent, ast.Call) and parent.func is node and isinstance(node, ast.Attribute)
            return not is_method and not (isinstance(node, ast.Attribute) and isinstance(parent, ast.Attribute))
    return False


def _is_value(numbered: NumberedTree, node: ast.AST) -> bool:
    """Whether the expression is evaluated where it stands: no pattern, decorator, base class or annotation."""
    part, above = node, numbered.parent(node)
    while isinstance(above, ast.expr | ast.keyword | ast.withitem | ast.comprehension):
        part, above = above, numbered.parent(above)
    if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or not isinstance(above, ast.stmt):
        return False
    return not (isinstance(above, ast.AnnAssign) and above.annotation is part)


def _call(function: str, *arguments: ast.expr | ast.AST) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), list(arguments), [])  # type: ignore[arg-type]


def without_reads(program: Script, recorded: Recorded) -> list[Script]:
    """The script with what it read from files and the network in place of the calls: the fewest calls first.

    Of the calls that ran at a read, the innermost one whose value can be written goes. The outer calls may do more than
    read, so the first form has them as they are. Empty if nothing was read.
    """
    numbered = NumberedTree(program)
    forms: list[Script] = []
    for depth in _DEPTHS:
        edits: dict[int, ast.AST] = {}
        for calls in recorded.reads:
            inner = calls[::-1][:depth]
            number = next((number for number in inner if recorded.values.get(number) not in (None, "None")), None)
            if number is not None:
                edits[number] = _expression(recorded.values[number])
        form = numbered.edited(edits) if edits else None
        if form is not None and form not in forms:
            forms.append(form)
    return forms


def _only(numbered: NumberedTree, values: _Values) -> dict[str, ast.expr]:
    """The values by the text of the expression, where this text has one value in the whole script."""
    by_text: dict[str, set[str | None]] = {}
    for number, value in values.items():
        by_text.setdefault(ast.unparse(numbered.nodes[number]), set()).add(value)
    only = {text: next(iter(values)) for text, values in by_text.items() if len(values) == 1}
    written = {text: _expression(value) for text, value in only.items() if value is not None}
    known = _texts(numbered.tree)
    return {text: value for text, value in written.items() if not _may_be_private(_texts(value) - known)}


def _texts(tree: ast.AST) -> set[str | bytes]:
    """The texts that are written in `tree`."""
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {value for value in values if isinstance(value, str | bytes)}


def _may_be_private(texts: set[str | bytes]) -> bool:
    """Whether one of the texts, which the script itself has not, is not just a short word: a path, data, a token."""
    return any(isinstance(text, bytes) or len(text) > _WORD or not text.isidentifier() for text in texts)


def _expression(text: str | None) -> ast.expr:
    return ast.parse(text or "None", mode="eval").body


def results(numbered: NumberedTree, values: Mapping[str, ast.expr], lines: Collection[int]) -> dict[int, ast.expr]:
    """For each call that returned what can be written: that. `values`: by the text of the call.

    A call around others on one of `lines`, where the failure showed, is taken for the one that fails.
    """
    edits: dict[int, ast.expr] = {}
    for number, node in enumerate(numbered.nodes):
        if isinstance(node, ast.Call) and not (node.lineno in lines and _is_outermost(numbered, node)):
            value = values.get(ast.unparse(node))
            if value is not None and not isinstance(value, ast.Constant):
                edits[number] = value
    return edits


def _is_outermost(numbered: NumberedTree, call: ast.Call) -> bool:
    above = numbered.parent(call)
    while isinstance(above, ast.expr | ast.keyword):
        if isinstance(above, ast.Call):
            return False
        above = numbered.parent(above)
    return True


def with_released(numbered: NumberedTree, edits: Edits) -> Edits:
    """The edits, and those that drop the statements whose names only the replaced calls mention, even indirectly."""
    all_edits: dict[int, Replacement] = dict(edits)
    before = set(_read(numbered, numbered.tree, {}))
    count = -1
    while count != len(all_edits):
        count = len(all_edits)
        idle = before - set(_read(numbered, numbered.tree, all_edits))
        for number, node in enumerate(numbered.nodes):
            names = _given(node)
            if number not in all_edits and names and idle.issuperset(names):
                all_edits[number] = None
    return all_edits


def _given(node: ast.AST) -> list[str]:
    """The names that a definition or an assignment gives; none if it has other targets."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Tuple(elts=targets)]) | ast.Assign(targets=targets):
            names = [_name(target) for target in targets]
            return [name for name in names if name] if all(names) else []
    return []


def _name(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _read(numbered: NumberedTree, node: ast.AST, edits: Edits) -> Iterator[str]:
    """The names that are read in `node`, once `edits` are made."""
    number = numbered.number_if_any(node)
    if number is not None and number in edits:
        replacement, others = edits[number], {key: edit for key, edit in edits.items() if key != number}
        for part in [replacement] if isinstance(replacement, ast.AST) else replacement or ():
            yield from _read(numbered, part, others)
        return
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
            yield name
        case ast.Constant(value=str(text)):
            yield text
    for child in ast.iter_child_nodes(node):
        yield from _read(numbered, child, edits)
