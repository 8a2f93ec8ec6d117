"""A test of pytest as a script: the file of the test, with a call of the test at its end."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from repro_kit.case.case import Subject
from repro_kit.source import CannotFold


@dataclass(frozen=True)
class ChosenTest:
    """The one test that a command runs: ``FILE::CLASS::NAME[PARAMETERS]``. `parameters` is None without brackets."""

    file: str
    names: tuple[str, ...]
    parameters: str | None

    @staticmethod
    def of(subject: Subject) -> ChosenTest | None:
        """The test that `subject` runs; None if the command is not one of pytest. Raises CannotFold."""
        words = _words(subject)
        if words is None:
            return None
        chosen = [word for word in words if "::" in word and not word.startswith("-")]
        if len(chosen) != 1:
            raise CannotFold("a script can be made of one test only; name it as FILE::TEST")
        node, bracket, parameters = chosen[0].removesuffix("]").partition("[")
        file, *names = node.split("::")
        return ChosenTest(file, tuple(names), parameters if bracket else None)


def _words(subject: Subject) -> list[str] | None:
    """The words after ``pytest``, ``-m pytest`` or ``python -m pytest``; None for another command."""
    words = list(subject.argv)
    if subject.form == "module":
        return words[1:] if words[:1] == ["pytest"] else None
    if subject.form != "command":
        return None
    if PurePath(words[0]).name in ("pytest", "py.test"):
        return words[1:]
    is_python = PurePath(words[0]).name.startswith("python") and words[1:3] == ["-m", "pytest"]
    return words[3:] if is_python else None


def script_of(text: str, test: ChosenTest) -> str:
    """The script that runs the test: fixtures are called as functions. Raises CannotFold with what has no value."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise CannotFold(f"{test.file} cannot be parsed by the Python of repro-kit ({error})") from error
    scopes: list[list[ast.stmt]] = [tree.body]
    for name in test.names[:-1]:
        scopes.append(_class(scopes[-1], name, test).body)
    function = next((node for node in _functions(scopes[-1]) if node.name == test.names[-1]), None)
    if function is None:
        raise CannotFold(f"{test.file} defines no {test.names[-1]}")
    owner = f"{'.'.join(test.names[:-1])}()." if test.names[1:] else ""
    fixtures = {
        node.name: _Fixture(node, "" if scope is tree.body else owner)
        for scope in scopes
        for node in _functions(scope)
        if any("fixture" in ast.unparse(part) for part in node.decorator_list)
    }
    given = _given(function, _parameters(function, test), fixtures)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = [part for part in node.decorator_list if not _is_pytests(part)]
    return f"{ast.unparse(tree)}\n\n{owner}{function.name}({given})\n"


@dataclass(frozen=True)
class _Fixture:
    function: ast.FunctionDef
    owner: str  # what its name follows: empty for a function of the file


def _functions(body: Sequence[ast.stmt]) -> list[ast.FunctionDef]:
    return [node for node in body if isinstance(node, ast.FunctionDef)]


def _class(body: Sequence[ast.stmt], name: str, test: ChosenTest) -> ast.ClassDef:
    found = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == name), None)
    if found is None:
        raise CannotFold(f"{test.file} defines no {name}")
    if any(function.name.lower().startswith("setup") for function in _functions(found.body)):
        raise CannotFold(f"the class {name} of the test prepares its tests with a method")
    return found


def _given(
    function: ast.FunctionDef,
    values: Mapping[str, str],
    fixtures: Mapping[str, _Fixture],
    inside: tuple[str, ...] = (),
) -> str:
    """The arguments of a call of the test or of a fixture."""
    given = []
    for name in _arguments(function):
        fixture = fixtures.get(name)
        if name in values:
            given.append(f"{name}={values[name]}")
        elif fixture is None or name in inside:
            raise CannotFold(f"the test uses the fixture {name}, which its file does not define")
        else:
            called = f"{fixture.owner}{name}({_given(fixture.function, values, fixtures, (*inside, name))})"
            yields = any(isinstance(part, ast.Yield) for part in ast.walk(fixture.function))
            given.append(f"{name}={f'next({called})' if yields else called}")
    return ", ".join(given)


def _arguments(function: ast.FunctionDef) -> Iterator[str]:
    """The names of the arguments without a default, `self` left out."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    required = plain[: len(plain) - len(arguments.defaults)]
    yield from (arg.arg for arg in required if arg.arg != "self")
    yield from (
        arg.arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default
    )


def _is_pytests(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith(("pytest.mark.", "pytest.fixture", "fixture"))


def _parameters(function: ast.FunctionDef, test: ChosenTest) -> dict[str, str]:
    """The values of the test's parameters, as text, by what ``[…]`` of the command names."""
    decorators = [part for part in function.decorator_list if isinstance(part, ast.Call) and _parametrizes(part)]
    if not decorators:
        return {}
    fitting = [
        chosen for chosen in _combinations(decorators) if test.parameters == "-".join(_id(value) for _, value in chosen)
    ]
    if len(fitting) != 1:
        raise CannotFold("the parameters of the test are not known; name the test with them, as FILE::TEST[PARAMETERS]")
    return {name: ast.unparse(value) for name, value in fitting[0]}


def _parametrizes(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "pytest.mark.parametrize" and len(call.args) >= 2


def _combinations(decorators: Sequence[ast.Call]) -> Iterator[list[tuple[str, ast.expr]]]:
    """Every choice of values; pytest names the values of the innermost decorator first."""
    if not decorators:
        yield []
        return
    names, rows = decorators[-1].args[:2]
    words = ast.literal_eval(names)
    split = [name.strip() for name in (words.split(",") if isinstance(words, str) else words)]
    for row in rows.elts if isinstance(rows, ast.List | ast.Tuple) else ():
        values = row.elts if len(split) > 1 and isinstance(row, ast.List | ast.Tuple) else [row]
        for rest in _combinations(decorators[:-1]):
            yield [*zip(split, values, strict=False), *rest]


def _id(value: ast.expr) -> str:
    """How pytest names a value in brackets; only literals have such a name."""
    try:
        return str(ast.literal_eval(value))
    except ValueError:
        return ast.unparse(value)
