"""A test of pytest as a script: the file of the test, with a call of the test at its end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from repro_kit.case.case import Subject
from repro_kit.source import CannotFold

_INSTANCE = "instance_of_test"
#: A line of pytest's summary: ``FAILED tests/test_a.py::test_b[1] - …``, ``SUBFAILED(name='a') …``.
_FAILED = re.compile(r"^(?:FAILED|SUBFAILED.*?[)\]]) (\S+::.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class ChosenTest:
    """The one test that a command runs: ``FILE::CLASS::NAME[PARAMETERS]``. `parameters` is None without brackets."""

    file: str
    names: tuple[str, ...]
    parameters: str | None

    @property
    def node(self) -> str:
        """The test as pytest names it, with the bare name of its file."""
        parameters = f"[{self.parameters}]" if self.parameters is not None else ""
        return "::".join([PurePath(self.file).name, *self.names]) + parameters

    @staticmethod
    def of(subject: Subject, output: str = "") -> ChosenTest | None:
        """The test that `subject` runs, or the first that failed in the `output` of several.

        None if the command is not one of pytest. Raises CannotFold.
        """
        words = _words(subject)
        if words is None:
            return None
        chosen = [word for word in words if "::" in word and not word.startswith("-")]
        failed = _FAILED.findall(output)
        if len(chosen) == 1:
            failed = [node for node in failed if node.endswith(chosen[0]) or f"{chosen[0]}[" in node] or chosen
        if not failed:
            raise CannotFold("a script can be made of one test only; name it as FILE::TEST")
        node, bracket, parameters = failed[0].removesuffix("]").partition("[")
        file, *names = node.split("::")
        cwd = Path(subject.cwd)  # or below the directory that pytest names files from
        found = next((root / file for root in (cwd, *cwd.parents) if (root / file).is_file()), file)
        return ChosenTest(str(found), tuple(names), parameters if bracket else None)

    def conftests(self, cwd: Path) -> tuple[Path, ...]:
        """The files with fixtures for the test: ``conftest.py`` beside the test and above, the outermost first."""
        directories = [place for place in (cwd / self.file).parents if place.is_relative_to(cwd)]
        return tuple(file for place in reversed(directories) if (file := place / "conftest.py").is_file())


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


def script_of(text: str, test: ChosenTest, conftests: Sequence[str] = ()) -> str:
    """The script that runs the test: fixtures are called as functions. Raises CannotFold with what has no value.

    `conftests`: the texts of the files with more fixtures, the outermost first.
    """
    try:
        tree = ast.parse(text)
        before = [statement for shared in conftests for statement in ast.parse(shared).body]
    except SyntaxError as error:
        raise CannotFold(f"{test.file} cannot be parsed by the Python of repro-kit ({error})") from error
    body = (node for node in (*before, *tree.body) if not _is_for_scripts(node))
    tree.body = sorted(body, key=lambda node: not _is_future(node))
    scopes: list[list[ast.stmt]] = [tree.body]
    instance = _Instance()
    for name in test.names[:-1]:
        found = _class(scopes[-1], name, test)
        scopes.append(found.body)
        instance = _instance(found, test)
    function = next((node for node in _functions(scopes[-1]) if node.name == test.names[-1]), None)
    if function is None:
        raise CannotFold(f"{test.file} defines no {test.names[-1]}")
    owner = f"{_INSTANCE}." if instance.made else ""
    fixtures = {
        node.name: _Fixture(node, "" if scope is tree.body else owner, "autouse=True" in _decorators(node))
        for scope in scopes
        for node in _functions(scope)
        if "fixture" in _decorators(node)
    }
    values = _Values(fixtures)
    for name, fixture in fixtures.items():
        if fixture.is_automatic:
            values.of(name)
    given = values.given(function, _parameters(function, test))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = [part for part in node.decorator_list if not _is_pytests(part)]
    prepared = [*instance.made, *values.statements, *instance.prepared]
    return "\n".join([ast.unparse(tree), "", *prepared, f"{owner}{function.name}({given})", ""])


def _is_for_scripts(node: ast.stmt) -> bool:
    """Whether pytest does not run the statement: ``if __name__ == "__main__":``."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


@dataclass(frozen=True)
class _Fixture:
    function: ast.FunctionDef
    owner: str  # what its name follows: empty for a function of the file
    is_automatic: bool  # used by every test


def _functions(body: Sequence[ast.stmt]) -> list[ast.FunctionDef]:
    return [node for node in body if isinstance(node, ast.FunctionDef)]


def _class(body: Sequence[ast.stmt], name: str, test: ChosenTest) -> ast.ClassDef:
    found = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == name), None)
    if found is None:
        raise CannotFold(f"{test.file} defines no {name}")
    return found


@dataclass(frozen=True)
class _Instance:
    """The statements that make the instance of the test's class, and those that prepare it for the test."""

    made: tuple[str, ...] = ()
    prepared: tuple[str, ...] = ()


def _instance(cls: ast.ClassDef, test: ChosenTest) -> _Instance:
    """How pytest and unittest make the instance that runs `test`."""
    path, name = ".".join(test.names[:-1]), test.names[-1]
    methods = {function.name: function for function in _functions(cls.body)}
    is_case = any(ast.unparse(base).endswith("TestCase") for base in cls.bases)
    of_class = [f"{path}.{method}()" for method in ("setup_class", "setUpClass") if method in methods]
    prepared = []
    if "setup_method" in methods:
        takes_test = len(methods["setup_method"].args.args) > 1
        prepared.append(f"{_INSTANCE}.setup_method({f'{_INSTANCE}.{name}' if takes_test else ''})")
    if "setUp" in methods:
        prepared.append(f"{_INSTANCE}.setUp()")
    return _Instance(
        (*of_class, f"{_INSTANCE} = {path}({name!r})" if is_case else f"{_INSTANCE} = {path}()"), tuple(prepared)
    )


class _Values:
    """The values of fixtures, each made once. `statements` make them, in order."""

    def __init__(self, fixtures: Mapping[str, _Fixture]) -> None:
        self.statements: list[str] = []
        self._fixtures = fixtures
        self._made: dict[str, str] = {}

    def given(self, function: ast.FunctionDef, parameters: Mapping[str, str]) -> str:
        """The arguments of a call of the test or of a fixture. Raises CannotFold with what has no value."""
        names = _arguments(function)
        return ", ".join(f"{name}={parameters[name] if name in parameters else self.of(name)}" for name in names)

    def of(self, name: str) -> str:
        """The name that is bound to the fixture's value. Raises CannotFold."""
        fixture = self._fixtures.get(name)
        if fixture is None or self._made.get(name) == "":
            raise CannotFold(f"the test uses the fixture {name}, which its file and conftest.py do not define")
        if name not in self._made:
            self._made[name] = ""  # a fixture that needs itself
            value = f"{fixture.owner}{name}({self.given(fixture.function, {})})"
            if any(isinstance(part, ast.Yield) for part in ast.walk(fixture.function)):
                self.statements.append(f"steps_of_{name} = {value}")  # what follows the yield runs when this name goes
                value = f"next(steps_of_{name})"
            self._made[name] = f"value_of_{name}"
            self.statements.append(f"value_of_{name} = {value}")
        return self._made[name]


def _arguments(function: ast.FunctionDef) -> Iterator[str]:
    """The names of the arguments without a default, `self` left out."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    required = plain[: len(plain) - len(arguments.defaults)]
    yield from (arg.arg for arg in required if arg.arg != "self")
    yield from (
        arg.arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default
    )


def _decorators(function: ast.FunctionDef) -> str:
    return " ".join(map(ast.unparse, function.decorator_list))


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
