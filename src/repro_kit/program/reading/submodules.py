"""Bodies of higher-order operators in a module's text: turn their classes into functions of a program."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from repro_kit.errors import StageError
from repro_kit.program.parsing import parse_function
from repro_kit.program.program import Function


def modules(init: ast.FunctionDef | None, classes: Mapping[str, ast.ClassDef]) -> dict[str, str]:
    """The attributes that ``__init__`` sets to an instance of one of `classes`: {attribute: function name}."""
    function_names = {}
    for node in init.body if init is not None else ():
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=attr)], value=ast.Call(func=ast.Name(id=name), args=[])):
                if name in classes:
                    function_names[attr] = _function_name(name)
    return function_names


def bodies(classes: Mapping[str, ast.ClassDef], outermost: str) -> tuple[Function, ...]:
    """Every class but `outermost` as a function. Raises StageError if one needs more than its arguments."""
    functions = []
    for name, node in classes.items():
        methods = {method.name: method for method in node.body if isinstance(method, ast.FunctionDef)}
        if name == outermost or "forward" not in methods:
            continue
        forward = inlined(methods["forward"], modules(methods.get("__init__"), classes))
        left = next((part for part in ast.walk(forward) if isinstance(part, ast.Name) and part.id == "self"), None)
        if left is not None:
            raise StageError(f"The body {name} of the artifact has its own tensors, which a program cannot hold.")
        forward.name, forward.returns = _function_name(name), None
        forward.args.args = [ast.arg(arg=arg.arg) for arg in forward.args.args if arg.arg != "self"]
        functions.append(parse_function(forward))
    return tuple(functions)


def inlined(forward: ast.FunctionDef, functions: Mapping[str, str]) -> ast.FunctionDef:
    """`forward` with `functions` in place of its sub-modules: ``a = self.body; op(a)`` becomes ``op(body)``."""
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

    class SubmoduleNames(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.copy_location(ast.Name(id=names.get(node.id, node.id), ctx=node.ctx), node)

        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in functions:
                return ast.copy_location(ast.Name(id=functions[node.attr], ctx=node.ctx), node)
            return node

    forward.body = statements
    renamed = SubmoduleNames().visit(forward)
    assert isinstance(renamed, ast.FunctionDef)
    return renamed


def _function_name(name: str) -> str:
    return name.lower()
