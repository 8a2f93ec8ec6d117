"""The parameters of a test, from the words in brackets of its name: ``test_a[float32-2]``.

The names are those that pytest gives: ``IdMaker`` in _pytest/python.py. Where a value has several possible names as an
expression, such as an object and a class, each is tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

_SCALARS = (str, bool, int, float, complex, type(None))


@dataclass(frozen=True)
class Row:
    """Values that a test gets together, as expressions by name. `ids`: what pytest may call the row."""

    values: tuple[tuple[str, str], ...]
    ids: frozenset[str]


@dataclass(frozen=True)
class Choices:
    """The rows of one ``parametrize``, or of the ``params`` of a fixture.

    `to_fixtures`: the names of fixtures that get the value, in place of the test.
    """

    rows: tuple[Row, ...]
    to_fixtures: frozenset[str] = frozenset()


def choices_of_marks(marks: Sequence[ast.expr], module: ast.Module) -> list[Choices]:
    """The choices of the decorators among `marks`, in order."""
    calls = (mark for mark in marks if isinstance(mark, ast.Call))
    return [
        _choices_of_mark(call, module)
        for call in calls
        if ast.unparse(call.func).endswith("mark.parametrize") and len(call.args) >= 2
    ]


def choices_of_fixture(name: str, decorators: Sequence[ast.expr], module: ast.Module) -> Choices | None:
    """The choices of a fixture with ``params``; None for any other."""
    for call in decorators:
        keywords = _keywords(call) if isinstance(call, ast.Call) else {}
        if "params" in keywords:
            return Choices(_rows([name], keywords["params"], keywords.get("ids"), module), frozenset([name]))
    return None


def marks_of_module(module: ast.Module) -> list[ast.expr]:
    """The marks that a file gives to all its tests: ``pytestmark = …``."""
    value = _assigned("pytestmark", module)
    return value.elts if isinstance(value, ast.List | ast.Tuple) else [value] if value is not None else []


@dataclass(frozen=True)
class Parameters:
    """Expressions by name: `direct` for arguments of the test and of fixtures, `requested` for ``request.param``."""

    direct: Mapping[str, str]
    requested: Mapping[str, str]


def parameters(choices: Sequence[Choices], brackets: str) -> Parameters | None:
    """The values that the words in brackets name; None if they fit no choice of rows, or several."""
    found = _fitting(choices, brackets)
    if len(found) != 1:
        return None
    values = [(name in choice.to_fixtures, name, value) for choice, row in found[0] for name, value in row.values]
    direct = {name: value for to_fixture, name, value in values if not to_fixture}
    return Parameters(direct, {name: value for to_fixture, name, value in values if to_fixture})


def _fitting(choices: Sequence[Choices], brackets: str) -> list[list[tuple[Choices, Row]]]:
    """Every choice of one row each whose names, joined by hyphens, are `brackets`."""
    if not choices:
        return [[]] if not brackets else []
    first, rest = choices[0], choices[1:]
    found = []
    for row in first.rows:
        for name in sorted(row.ids):
            if not rest and name == brackets:
                found.append([(first, row)])
            elif rest and brackets.startswith(f"{name}-"):
                found += [[(first, row), *others] for others in _fitting(rest, brackets[len(name) + 1 :])]
    return found


def _choices_of_mark(call: ast.Call, module: ast.Module) -> Choices:
    keywords = _keywords(call)
    try:
        words = ast.literal_eval(call.args[0])
        names = [name.strip() for name in words.split(",")] if isinstance(words, str) else list(words)
        indirect = ast.literal_eval(keywords["indirect"]) if "indirect" in keywords else False
    except (ValueError, TypeError):
        return Choices(())
    names = [name for name in names if name]
    to_fixtures = names if indirect is True else indirect or ()
    return Choices(_rows(names, call.args[1], keywords.get("ids"), module), frozenset(to_fixtures))


def _rows(names: Sequence[str], rows: ast.expr, ids: ast.expr | None, module: ast.Module) -> tuple[Row, ...]:
    given = _elements(ids, module) if ids is not None else []
    found = []
    for index, row in enumerate(_elements(rows, module)):
        own = None
        if isinstance(row, ast.Call) and ast.unparse(row.func) in ("pytest.param", "param"):
            own = _keywords(row).get("id")
            values = row.args
        else:
            values = row.elts if len(names) > 1 and isinstance(row, ast.List | ast.Tuple) else [row]
        if len(values) != len(names):
            continue
        named = own if own is not None else given[index] if index < len(given) else None
        parts = [_ids(value, f"{name}{index}") for name, value in zip(names, values, strict=True)]
        row_ids = [_scalar(named)] if named is not None else map("-".join, product(*parts))
        texts = (ast.unparse(value) for value in values)
        found.append(Row(tuple(zip(names, texts, strict=True)), frozenset(row_ids)))
    return tuple(found)


def _elements(node: ast.expr, module: ast.Module) -> Sequence[ast.expr]:
    """The elements of a list, of a name for one, or of ``range(…)``; none if they are not written out."""
    if isinstance(node, ast.Name):
        value = _assigned(node.id, module)
        return _elements(value, module) if value is not None else []
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return node.elts
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "range" and not node.keywords:
        try:
            return [ast.Constant(number) for number in range(*map(ast.literal_eval, node.args))]
        except (ValueError, TypeError):
            return []
    return []


def _assigned(name: str, module: ast.Module) -> ast.expr | None:
    """What the last plain assignment of the module gives to `name`."""
    found: ast.expr | None = None
    for statement in module.body:
        if isinstance(statement, ast.Assign) and name in map(ast.unparse, statement.targets):
            found = statement.value
    return found


def _ids(value: ast.expr, numbered: str) -> Iterator[str]:
    """What pytest may call a value. `numbered`: the name that it gives to an object without one."""
    scalar = _scalar(value)
    if scalar:
        yield scalar
        return
    yield numbered
    if isinstance(value, ast.Name | ast.Attribute):
        text = ast.unparse(value)
        yield from {text, ".".join(text.split(".")[-2:]), text.rpartition(".")[2]}  # a class or function; an enum
    if isinstance(value, ast.Lambda):
        yield "<lambda>"


def _scalar(node: ast.expr) -> str:
    """What pytest calls a literal; "" for what has no such name."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ""
    return str(value) if isinstance(value, _SCALARS) else ""


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
