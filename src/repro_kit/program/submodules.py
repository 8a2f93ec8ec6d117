"""The bodies of higher-order operators in a module's text: classes there, functions in a program."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from repro_kit.errors import StageError
from repro_kit.program.parse import parse_function
from repro_kit.program.program import Function


def modules(init: ast.FunctionDef | None, classes: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    """The attributes that ``__init__`` makes modules of a class in the text, each with the name of its function."""
    found = {}
    for node in init.body if init is not None else ():
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=attr)], value=ast.Call(func=ast.Name(id=name), args=[])):
                if name in classes:
                    found[attr] = _function_name(name)
    return found


def bodies(classes: Mapping[str, ast.ClassDef], outermost: str) -> tuple[Function, ...]:
    """Every class but `outermost` as a function. Raises ReproKitError where one needs more than its arguments."""
    found = []
    for name, node in classes.items():
        methods = {it.name: it for it in node.body if isinstance(it, ast.FunctionDef)}
        if name == outermost or "forward" not in methods:
            continue
        forward = inlined(methods["forward"], modules(methods.get("__init__"), classes))
        left = next((it for it in ast.walk(forward) if isinstance(it, ast.Name) and it.id == "self"), None)
        if left is not None:
            raise StageError(f"The body {name} of the artifact uses tensors of its own, not carried.")
        forward.name, forward.returns = _function_name(name), None
        forward.args.args = [ast.arg(arg=arg.arg) for arg in forward.args.args if arg.arg != "self"]
        found.append(parse_function(forward))
    return tuple(found)


def inlined(forward: ast.FunctionDef, functions: Mapping[str, str]) -> ast.FunctionDef:
    """`forward` with `functions` in place of modules of its own: ``a = self.body; op(a)`` becomes ``op(body)``."""
    names: dict[str, str] = {}
    statements: list[ast.stmt] = []
    for node in forward.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=alias)], value=ast.Attribute(value=ast.Name(id="self"), attr=attr)
            ) if attr in functions:
                names[alias] = functions[attr]
            case _:
                statements.append(node)

    class Rename(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.copy_location(ast.Name(id=names.get(node.id, node.id), ctx=node.ctx), node)

        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in functions:
                return ast.copy_location(ast.Name(id=functions[node.attr], ctx=node.ctx), node)
            return node

    forward.body = statements
    renamed = Rename().visit(forward)
    assert isinstance(renamed, ast.FunctionDef)
    return renamed


def _function_name(name: str) -> str:
    return name.lower()
