"""The values of a test of pytest: its parameters, as the brackets of its name choose them, and its fixtures."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from repro_kit.script import CannotFold

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


_REQUEST = "request"  # pytest's fixture that gives a fixture its parameter
_SCOPES = ("session", "package", "module", "class", "function")  # fixtures of a wider scope are made first
#: Fixtures of pytest itself, as expressions.
_BUILT_IN = {
    "tmp_path": "__import__('pathlib').Path(__import__('tempfile').mkdtemp())",
    "monkeypatch": "__import__('pytest').MonkeyPatch()",
}


@dataclass(frozen=True)
class Fixture:
    """A fixture of the file of a test, or of a ``conftest.py``."""

    name: str
    function: ast.FunctionDef
    owner: str  # what the name of the function follows: empty for a function of the file
    is_automatic: bool  # used by every test
    scope: str


def fixture_of(function: ast.FunctionDef, owner: str) -> Fixture | None:
    """The fixture that a function makes; None for any other function."""
    decorator = next((part for part in function.decorator_list if "fixture" in ast.unparse(part)), None)
    if decorator is None:
        return None
    keywords = {}
    if isinstance(decorator, ast.Call):
        constants = (each for each in decorator.keywords if isinstance(each.value, ast.Constant))
        keywords = {each.arg: each.value.value for each in constants if isinstance(each.value, ast.Constant)}
    is_automatic = keywords.get("autouse") is True
    scope = str(keywords.get("scope", "function"))
    return Fixture(str(keywords.get("name", function.name)), function, owner, is_automatic, scope)


def used_by_marks(marks: Sequence[ast.expr]) -> list[str]:
    """The fixtures that ``usefixtures`` names."""
    calls = [mark for mark in marks if isinstance(mark, ast.Call) and "mark.usefixtures" in ast.unparse(mark.func)]
    return [str(name.value) for call in calls for name in call.args if isinstance(name, ast.Constant)]


def closure(names: Sequence[str], fixtures: Mapping[str, Fixture]) -> list[Fixture]:
    """The fixtures that `names` need, in the order in which pytest makes them (``getfixtureclosure``)."""
    found: dict[str, Fixture] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name in fixtures and name not in found:
            found[name] = fixtures[name]
            waiting += arguments_of(fixtures[name].function)
    rank = {scope: at for at, scope in enumerate(_SCOPES)}
    return sorted(found.values(), key=lambda fixture: rank.get(fixture.scope, len(_SCOPES)))


class Values:
    """The values of fixtures, each made once. `statements` make them, in order.

    `parameters`: those of the test and of the fixtures.
    """

    def __init__(self, fixtures: Mapping[str, Fixture], parameters: Parameters) -> None:
        self.statements: list[str] = []
        self._fixtures = fixtures
        self._parameters = parameters
        self._made: dict[str, str] = {}

    def given_to(self, function: ast.FunctionDef, request: str = "") -> str:
        """The arguments of a call of the test or of a fixture. Raises CannotFold with what has no value."""
        direct = {**self._parameters.direct, **({_REQUEST: request} if request else {})}
        names = arguments_of(function)
        return ", ".join(f"{name}={direct[name] if name in direct else self.of(name)}" for name in names)

    def of(self, name: str) -> str:
        """The name that is bound to the fixture's value. Raises CannotFold."""
        fixture = self._fixtures.get(name)
        if (fixture is None and name not in _BUILT_IN) or self._made.get(name) == "":
            raise CannotFold(f"the test uses the fixture {name}, which its file and conftest.py do not define")
        if name not in self._made:
            self._made[name] = ""  # a fixture that needs itself
            value = self._call(fixture) if fixture is not None else _BUILT_IN[name]
            self._made[name] = f"value_of_{name}"
            self.statements.append(f"value_of_{name} = {value}")
        return self._made[name]

    def _call(self, fixture: Fixture) -> str:
        """The expression that makes the value of a fixture, after the statements that it needs."""
        request = self._parameters.requested.get(fixture.name, "")
        if request and not _takes_parameter(fixture.function):
            request = ""
        value = f"{fixture.owner}{fixture.function.name}({self.given_to(fixture.function, request)})"
        if any(isinstance(part, ast.Yield) for part in ast.walk(fixture.function)):
            steps = f"steps_of_{fixture.name}"  # what follows the yield runs when this name goes
            self.statements.append(f"{steps} = {value}")
            return f"next({steps})"
        return value


def _takes_parameter(function: ast.FunctionDef) -> bool:
    """Make a fixture take its parameter in place of the request; False if it uses more of the request than that."""
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == _REQUEST]
    of_parameter = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "param" and node.value in uses
    ]
    if _REQUEST not in arguments_of(function) or len(of_parameter) != len(uses):
        return False
    plain = {id(node): node.value for node in of_parameter}
    _Replace(plain).visit(function)
    return True


class _Replace(ast.NodeTransformer):
    """Replaces nodes, by their identity."""

    def __init__(self, new: Mapping[int, ast.expr]) -> None:
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        found: ast.AST = self._new[id(node)] if id(node) in self._new else self.generic_visit(node)
        return found


def arguments_of(function: ast.FunctionDef) -> Iterator[str]:
    """The names of the arguments without a default, `self` left out."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    required = plain[: len(plain) - len(arguments.defaults)]
    yield from (arg.arg for arg in required if arg.arg != "self")
    yield from (
        arg.arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default
    )
