"""A test of pytest or unittest as a script: the file of the test, with a call of the test at its end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from repro_kit.case.case import Subject
from repro_kit.script import CannotFold
from repro_kit.stages.minify.pytest_values import (
    Fixture,
    Parameters,
    Values,
    arguments_of,
    choices_of_fixture,
    choices_of_marks,
    closure,
    fixture_of,
    marks_of_module,
    parameters,
    used_by_marks,
)

_INSTANCE = "instance_of_test"
#: A line of pytest's summary: ``FAILED tests/test_a.py::test_b[1] - …``, ``SUBFAILED(name='a') …``.
_FAILED = re.compile(r"^(?:FAILED|SUBFAILED.*?[)\]]) (\S+::.*?)(?: - (.*))?$", re.MULTILINE)
_QUALIFIED = re.compile(r"^(?:\w+\.)+(?=\w+(?::|$))")


@dataclass(frozen=True)
class ChosenTest:
    """The one test that a command runs: ``FILE::CLASS::NAME[PARAMETERS]``. `parameters` is None without brackets."""

    file: str
    names: tuple[str, ...]
    parameters: str | None
    of_pytest: bool = True  # else of unittest

    @property
    def node(self) -> str:
        """The test as pytest names it, with the bare name of its file."""
        parameters = f"[{self.parameters}]" if self.parameters is not None else ""
        return "::".join([PurePath(self.file).name, *self.names]) + parameters

    @staticmethod
    def of(subject: Subject, output: str = "", error: str = "") -> ChosenTest | None:
        """The test that `subject` runs, or the first that failed in the `output` of several.

        `error`: the exception of the chosen failure, as ``TYPE: MESSAGE``; a test that raised it is preferred. None if
        the command is not one of pytest. Raises CannotFold.
        """
        words = _words(subject)
        if words is None:
            return None
        chosen = [word for word in words if "::" in word and not word.startswith("-")]
        reasons = _FAILED.findall(output)
        failed = [node for node, _ in sorted(reasons, key=lambda entry: not _tells(entry[1], error))]
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
        """The files with fixtures for the test: ``conftest.py`` in its directory and above, the outermost first."""
        places = (cwd / self.file).parents if self.of_pytest else ()
        directories = [place for place in places if place.is_relative_to(cwd)]
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


def _tells(reason: str, error: str) -> bool:
    """Whether the reason in pytest's summary, which may be cut short, is that of `error`."""
    told = _QUALIFIED.sub("", reason).removesuffix("...")
    return bool(told) and bool(error) and _QUALIFIED.sub("", error).startswith(told)


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
    marks = marks_of_module(tree)
    instance, functions = _Instance(), _functions(tree.body)
    for name in test.names[:-1]:
        found = _class(scopes[-1], name, test)
        scopes.append(found.body)
        marks = [*reversed(found.decorator_list), *marks]
        functions = [*_methods(found, tree)]
        instance = _instance(found, test, functions, tree)
    function = next((node for node in reversed(functions) if node.name == test.names[-1]), None)
    if function is None:
        raise CannotFold(f"{test.file} defines no {test.names[-1]}")
    marks = [*reversed(function.decorator_list), *marks]
    owner = f"{_INSTANCE}." if instance.made else ""
    fixtures = {
        fixture.name: fixture
        for scope in scopes
        for node in _functions(scope)
        if (fixture := fixture_of(node, "" if scope is tree.body else owner)) is not None
    }
    used = [*(name for name, fixture in fixtures.items() if fixture.is_automatic), *used_by_marks(marks)]
    needed = closure([*used, *arguments_of(function)], fixtures)
    values = Values(fixtures, _parameters(test, marks, needed, tree))
    for name in used:
        values.of(name)
    arguments = values.given_to(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = [part for part in node.decorator_list if not _is_pytests(part)]
    prepared = [*instance.made, *values.statements, *instance.prepared]
    return "\n".join([ast.unparse(tree), "", *prepared, f"{owner}{function.name}({arguments})", ""])


def _is_for_scripts(node: ast.stmt) -> bool:
    """Whether pytest does not run the statement: ``if __name__ == "__main__":``."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


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


def _instance(cls: ast.ClassDef, test: ChosenTest, functions: Sequence[ast.FunctionDef], tree: ast.Module) -> _Instance:
    """How pytest and unittest make the instance that runs `test`."""
    path, name = ".".join(test.names[:-1]), test.names[-1]
    methods = {function.name: function for function in functions}
    is_case = any(ast.unparse(base).endswith("TestCase") for base in _bases(cls, tree))
    of_class = [f"{path}.{method}()" for method in ("setup_class", "setUpClass") if method in methods]
    of_module = [f"{each.name}()" for each in _functions(tree.body) if each.name == "setUpModule"]
    prepared = []
    if "setup_method" in methods:
        takes_test = len(methods["setup_method"].args.args) > 1
        prepared.append(f"{_INSTANCE}.setup_method({f'{_INSTANCE}.{name}' if takes_test else ''})")
    if "setUp" in methods:
        prepared.append(f"{_INSTANCE}.setUp()")
    made = f"{_INSTANCE} = {path}({repr(name) if is_case else ''})"
    return _Instance((*of_module, *of_class, made), tuple(prepared))


def _bases(cls: ast.ClassDef, tree: ast.Module) -> Iterator[ast.expr]:
    """The bases of a class and, if the file defines them, theirs."""
    for base in cls.bases:
        yield base
        yield from (above for defined in _defined(base, tree) for above in _bases(defined, tree))


def _methods(cls: ast.ClassDef, tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The methods of a class and of its bases, as far as the file defines them, its own last."""
    for base in reversed(cls.bases):
        for defined in _defined(base, tree):
            yield from _methods(defined, tree)
    yield from _functions(cls.body)


def _defined(base: ast.expr, tree: ast.Module) -> list[ast.ClassDef]:
    name = base.id if isinstance(base, ast.Name) else ""
    return [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]


def _is_pytests(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith(("pytest.mark.", "mark.", "pytest.fixture", "fixture"))


def _parameters(test: ChosenTest, marks: Sequence[ast.expr], needed: Sequence[Fixture], tree: ast.Module) -> Parameters:
    """The values of the parameters of the test and of its fixtures. Raises CannotFold."""
    of_marks = choices_of_marks(marks, tree)
    named = {name for choices in of_marks for row in choices.rows for name, _ in row.values}
    own = (
        choices_of_fixture(each.name, each.function.decorator_list, tree) for each in needed if each.name not in named
    )
    found = parameters([*(each for each in own if each is not None), *of_marks], test.parameters or "")
    if found is None:
        raise CannotFold("the parameters of the test are not known; name the test with them, as FILE::TEST[PARAMETERS]")
    return found


_NAME = "unittest"
_BETWEEN = "=" * 70 + "\n"  # before each failed test
#: ``FAIL: test_a (package.module.Class.test_a)``; before Python 3.11 without the second ``test_a``.
_FAILED_UNITTEST = re.compile(r"(?:FAIL|ERROR): (\w+) \(([\w.]+)\)")


def runs_unittest(subject: Subject) -> bool:
    """Whether the command is ``python -m unittest …``."""
    words = list(subject.argv)
    if subject.form == "command":
        return PurePath(words[0]).name.startswith("python") and words[1:3] == ["-m", _NAME]
    return subject.form == "module" and words[:1] == [_NAME]


def failed_test(output: str, message: str, files: Mapping[str, str]) -> ChosenTest:
    """The first test that failed in the `output` of unittest; preferably one that raised an exception with `message`.

    `files`: the files of the user's modules by name. Raises CannotFold.
    """
    sections = [
        (found, section) for section in output.split(_BETWEEN)[1:] if (found := _FAILED_UNITTEST.match(section))
    ]
    if not sections:
        raise CannotFold("unittest reports no failed test")
    first_line = message.partition("\n")[0]
    found, _ = min(sections, key=lambda entry: first_line not in entry[1])
    name, qualified = found.groups()
    module, _, cls = qualified.removesuffix(f".{name}").rpartition(".")
    if module not in files:
        raise CannotFold(f"the file of the test {qualified} is not known")
    return ChosenTest(files[module], (cls, name), None, of_pytest=False)
