"""Find the strings of Python source that are given to a name for a secret, however the code spells that."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator

IsName = Callable[[str], bool]
#: Keywords by which a function takes a value for the name in its first argument, such as ``add_argument``.
_FOR_VALUES = ("default", "const", "value", "fallback")


def strings_given(source: str, is_secret: IsName) -> Iterator[str]:
    """The strings that `source` gives to names for which `is_secret` holds; nothing if it is not valid Python.

    Looked at are assignments (several targets, ``:=``, annotated), defaults, keywords, comparisons, items of
    dictionaries and pairs, and calls with the name among the arguments (``getenv("DB_PASSWORD", "…")``).
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        for name, value in _given(node):
            if is_secret(name):
                yield from _strings(value)


def _given(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Pairs of a name and what it is given in `node` itself."""
    match node:
        case ast.Assign():
            for target in node.targets:
                yield from _assigned(target, node.value)
        case ast.AnnAssign() | ast.NamedExpr() | ast.AugAssign() if node.value is not None:
            yield from _assigned(node.target, node.value)
        case ast.keyword():
            yield node.arg or "", node.value
        case ast.Dict():
            yield from ((_text(key), value) for key, value in zip(node.keys, node.values, strict=True))
        case ast.Tuple(elts=[first, second]) | ast.List(elts=[first, second]):
            yield _text(first), second
        case ast.Compare(left=left, comparators=[right]):
            yield from ((_name(left), right), (_name(right), left))
        case ast.arguments():
            positional = [*node.posonlyargs, *node.args]
            yield from _defaults(positional[len(positional) - len(node.defaults) :], node.defaults)
            yield from _defaults(node.kwonlyargs, node.kw_defaults)
        case ast.Call():
            values = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in _FOR_VALUES)]
            for at, argument in enumerate(node.args):
                yield from ((_text(argument), value) for value in values[at + 1 :])


def _defaults(arguments: Iterable[ast.arg], values: Iterable[ast.expr | None]) -> Iterator[tuple[str, ast.AST]]:
    yield from ((argument.arg, value) for argument, value in zip(arguments, values, strict=True) if value is not None)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """The pairs of an assignment; of several targets each with its own value, where the value lists them."""
    match target, value:
        case ((ast.Tuple() | ast.List()), (ast.Tuple() | ast.List())) if len(target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                yield from _assigned(one, its)
        case ((ast.Tuple() | ast.List()), _):
            yield from ((_name(one), value) for one in target.elts)
        case _:
            yield _name(target), value


def _name(node: ast.AST) -> str:
    """The last part of the name that `node` is: of an attribute, or of an item by a text."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript():
            return _text(node.slice)
        case _:
            return ""


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _strings(value: ast.AST) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (line.strip() for line in node.value.splitlines())
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield node.value.decode("latin-1")
