"""The statements of a script that decide whether it fails: its own check of the results."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from repro_kit.source.tree import SourceProgram, names_in, preorder, statements

#: Parts of the names of functions that compare values, or make one number of many.
_COMPARES = (
    "close",
    "equal",
    "isnan",
    "isfinite",
    "isinf",
    "assert",
    "abs",
    "max",
    "norm",
    "item",
    "any",
    "all",
    "diff",
)


def decisive(program: SourceProgram, line: int) -> tuple[str, ...]:
    """The texts of the check that raised at `line`: the statement, the conditions around it, and what they compare."""
    around = [
        statement
        for statement in statements(program.tree)
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno)
    ]
    if not around:
        return ()
    innermost = around[-1]
    tests = [statement.test for statement in around if isinstance(statement, ast.If | ast.While)]
    parts: list[ast.AST] = [*tests, *([] if _blocks(innermost) else [innermost])]
    scope = next((node for node in reversed(around) if isinstance(node, ast.FunctionDef)), program.tree)
    return tuple(dict.fromkeys(ast.unparse(part) for part in _with_sources(parts, scope)))


def running(program: SourceProgram, lines: Iterable[int]) -> tuple[str, ...]:
    """The texts of the innermost statements at `lines`, those of a traceback; statements with blocks are left out."""
    at = [
        [it for it in statements(program.tree) if it.lineno <= line <= (it.end_lineno or it.lineno)] for line in lines
    ]
    innermost = [around[-1] for around in at if around and not _blocks(around[-1])]
    return tuple(dict.fromkeys(map(ast.unparse, innermost)))


def keeps(program: SourceProgram, decisive_texts: tuple[str, ...]) -> bool:
    """Whether the program has all of `decisive_texts`."""
    texts = Counter(map(ast.unparse, _parts(program)))
    return all(texts[text] >= count for text, count in Counter(decisive_texts).items())


def _parts(program: SourceProgram) -> Iterator[ast.AST]:
    for statement in statements(program.tree):
        if isinstance(statement, ast.If | ast.While):
            yield statement.test
        elif not _blocks(statement):
            yield statement


def _blocks(statement: ast.stmt) -> bool:
    return bool(getattr(statement, "body", None))


def _with_sources(parts: list[ast.AST], scope: ast.AST) -> Iterator[ast.AST]:
    """`parts`, and the assignments in `scope` that compute a comparison that they read."""
    waiting, seen = list(parts), set[int]()
    while waiting:
        part = waiting.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        read = names_in(part)
        for node in preorder(scope):
            if isinstance(node, ast.Assign) and _compares(node.value) and names_in(*node.targets) & read:
                waiting.append(node)


def _compares(value: ast.AST) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.Compare):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if any(part in name for part in _COMPARES):
                return True
    return False
