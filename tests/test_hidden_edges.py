"""No module reaches another past its imports: `lint-imports` does not see a file that is loaded or read by its path."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from root import ROOT

PACKAGE = ROOT / "src" / "repro_kit"
MODULES = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "probe"]
LOADERS = {"spec_from_file_location", "SourceFileLoader", "exec_module", "run_path", "run_module", "getsource"}
DIRECTORIES = {"__file__", "PROBE"}  # names that begin a path to a module
#: The edges that are meant to be. The probe's texts have one door, `repro_kit.probe.embedded`.
DECLARED = {
    ("runner/supervised.py", "supervisor.py"),  # a program that is started
    ("watching.py", "repro_probe.entry.watch"),  # in the user's own process
}
#: The modules of the probe that repro-kit starts as programs.
PROGRAMS = {
    "repro_probe.server.zygote",
    "repro_probe.common.torch_environment",
    "repro_probe.query.write_values",
}


def texts(code: str) -> dict[str, str]:
    """The constants of `code` that are no docstrings, each with the expression around it."""
    tree = ast.parse(code)
    found: dict[str, str] = {}
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt) or (isinstance(statement, ast.Expr) and is_text(statement.value)):
            continue
        parts = [field for field in ast.iter_child_nodes(statement) if isinstance(field, ast.expr)]
        for part in parts:
            found |= {node.value: ast.unparse(part) for node in ast.walk(part) if is_text(node)}
    return found


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def hidden_edges(code: str) -> Iterator[str]:
    """What `code` loads or reads by a path, or imports by a name."""
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(ast.parse(code))}
    yield from names & LOADERS
    for text, around in texts(code).items():
        is_module = text == "repro_probe" or text.endswith(".py")
        if is_module and any(name in around for name in DIRECTORIES):
            yield text
        if "import_module" in around and text.startswith(("repro_kit", "repro_probe")):
            yield text


@pytest.mark.parametrize(
    ("code", "edges"),
    [
        ('X = Path(__file__).parents[2] / "probe" / "repro_probe" / "growth.py"', {"repro_probe", "growth.py"}),
        ('text = read_text(PROBE / "repro_probe" / "x")', {"repro_probe"}),
        ("def f(path):\n    return spec_from_file_location('x', path)", {"spec_from_file_location"}),
        ('importlib.import_module("repro_kit.case.case")', {"repro_kit.case.case"}),
        ('"""Like x.py of __file__."""\nCHECK = "check.py"\nfrom repro_kit.probe import embedded', set()),
    ],
)
def test_edges_that_imports_do_not_show_are_seen(code: str, edges: set[str]) -> None:
    assert set(hidden_edges(code)) == edges


def test_no_module_reaches_another_past_its_imports() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), edge)
        for path in MODULES
        for edge in hidden_edges(path.read_text(encoding="utf-8"))
    }
    assert found == DECLARED


def test_modules_that_are_started_as_programs_are_declared_and_exist() -> None:
    named = {text for path in MODULES for text in texts(path.read_text(encoding="utf-8"))}
    started = {text for text in named if text.startswith("repro_probe.")}
    assert started == {*PROGRAMS, "repro_probe.entry.watch"}
    assert all(find_spec(name) for name in PROGRAMS)
