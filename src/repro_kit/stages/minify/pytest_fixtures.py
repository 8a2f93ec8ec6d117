"""The fixtures of a test of pytest: which of them a test uses, and the statements that make their values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from repro_kit.source import CannotFold
from repro_kit.stages.minify.pytest_parameters import Parameters

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
