"""Tests, their helpers and the scripts use what `src/` offers: no name there that begins with an underscore."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from root import ROOT

PACKAGES = ("repro_kit", "repro_probe")
#: Modules that are not ours, whose private names may be used: torch has no public door to some of what is tested.
FOREIGN = ("torch", "sys", "os")
#: Functions that reach an attribute by its name, their second argument; `monkeypatch` has them too.
BY_NAME = ("getattr", "setattr", "delattr", "hasattr")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def private_names_of_the_product() -> set[str]:
    """What `src/` defines and keeps to itself: functions, classes, variables, attributes."""
    names: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return {name for name in names if is_private(name)}


def python_files() -> list[Path]:
    scripts = [path for path in (ROOT / "scripts").rglob("*") if path.is_file() and is_python(path)]
    return sorted([*(ROOT / "tests").rglob("*.py"), *scripts])


def is_python(path: Path) -> bool:
    return path.suffix == ".py" or (not path.suffix and b"python" in path.read_bytes().partition(b"\n")[0])


def reached(code: str, private: set[str]) -> Iterator[str]:
    """The private names of the product that `code` imports, reads, replaces or overrides, each with its line."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for name in names_in(node, private):
            yield f"{line}: {name}"


def names_in(node: ast.AST, private: set[str]) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
        yield from (alias.name for alias in node.names if is_private(alias.name))
    elif isinstance(node, ast.Attribute) and node.attr in private and root_of(node) not in ("self", "cls", *FOREIGN):
        yield ast.unparse(node)
    elif isinstance(node, ast.ClassDef) and node.bases:
        methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
        yield from (f"{node.name}.{name}" for name in methods if name in private)
    elif isinstance(node, ast.Call) and len(node.args) > 1 and name_of(node.func) in BY_NAME:
        name = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
        if name in private and root_of(node.args[0]) not in FOREIGN:
            yield ast.unparse(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.find("repro_") >= 0:
        yield from names_in_text(node.value, private)


def names_in_text(text: str, private: set[str]) -> Iterator[str]:
    """Of a string: a dotted name of ours, or code for another process."""
    if text.startswith(PACKAGES) and text.replace(".", "").isidentifier():
        yield from ([text] if any(is_private(part) for part in text.split(".")) else [])
        return
    try:
        yield from reached(text, private)
    except (SyntaxError, ValueError):
        return


def name_of(function: ast.expr) -> str:
    """`setattr` of `monkeypatch.setattr`."""
    return function.attr if isinstance(function, ast.Attribute) else root_of(function)


def root_of(node: ast.expr) -> str:
    """`torch` of `torch._dynamo.config`; "" where there is no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def test_tests_and_scripts_reach_no_private_name():
    private = private_names_of_the_product()
    found = {
        str(path.relative_to(ROOT)): names
        for path in python_files()
        if path != Path(__file__) and (names := list(reached(path.read_text(encoding="utf-8"), private)))
    }
    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "from repro_kit.builds.install import _program",
        "uv._program()",
        "Uv(place)._run([])",
        "getattr(uv, '_program')",
        "monkeypatch.setattr(uv, '_program', None)",
        "monkeypatch.setattr('repro_kit.builds.install._program', None)",
        "class Mine(Uv):\n    def _run(self):\n        pass\n",
        "CODE = 'from repro_kit.builds import uv\\nuv._program()\\n'",
    ],
)
def test_a_private_name_is_seen_however_it_is_reached(code):
    assert list(reached(code, {"_program", "_run"})) != []


@pytest.mark.parametrize(
    "code",
    ["import torch._dynamo", "torch._dynamo.reset()", "sys._run", "self._run()", "uv.program()", "'repro_kit._ a b'"],
)
def test_what_is_not_ours_may_be_reached(code):
    assert list(reached(code, {"_dynamo", "_run"})) == []
