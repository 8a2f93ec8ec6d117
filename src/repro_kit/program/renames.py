"""Rename in the code of a captured graph: plain names for inputs, sub-modules and constants."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from repro_kit.errors import StageError


def _plain_rename(statement: ast.stmt, inputs: Mapping[str, str]) -> tuple[str, str] | None:
    """(new, old) when the statement only gives an input another name, as Dynamo does on entry; else None."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=new)], value=ast.Name(id=old)) if old in inputs and new not in inputs:
            return new, old
    return None


def without_renames(statements: Sequence[ast.stmt], renames: dict[str, str]) -> list[ast.stmt]:
    """`statements` without those that only rename an input. Their names are added to `renames`."""
    own = []
    for statement in statements:
        renamed = _plain_rename(statement, renames)
        if renamed is None:
            own.append(statement)
        else:
            renames[renamed[0]] = renames[renamed[1]]
    return own


def body_lines(statements: Sequence[ast.stmt], parameters: Sequence[str]) -> list[str]:
    """`statements` as text, without those that only rename one of `parameters`."""
    renames = {name: name for name in parameters}
    own = without_renames(statements, renames)
    rename = Rename(renames, set())
    return [ast.unparse(rename.visit(statement)) for statement in own]


def is_rename_of_body(statement: ast.stmt) -> bool:
    """Whether this is `cond_true_0 = cond_true_0`, the rest of a sub-module's look-up, or a clean-up (`x = None`)."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=new)], value=ast.Name(id=old)):
            return new == old
        case ast.Assign(value=ast.Constant(value=None)):
            return True
    return False


def dotted_path(node: ast.expr) -> str:
    """``self.blocks.0.weight`` for ``getattr(self.blocks, "0").weight``, as torch.fx writes it; else an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            pass
        case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name))]):
            pass
        case _:
            return ""
    above = dotted_path(value)
    return above and f"{above}.{name}"


class Attributes(ast.NodeTransformer):
    """Replaces `self.<path>`, and a local name bound to it, by the program's function or input for it."""

    def __init__(self, path: str, bodies: Mapping[str, str], constants: Mapping[str, str]) -> None:
        self.prefix = path + "." if path else ""
        self.bodies = bodies
        self.constants = constants
        self.locals: dict[str, str] = {}

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Replace the local name of a sub-module by the sub-module's own name."""
        node.value = self.visit(node.value)
        match node.targets, node.value:
            case [ast.Name(id=local)], ast.Name(id=name) if name in self.bodies.values():
                self.locals[local] = name
                node.targets = [ast.Name(id=name, ctx=ast.Store())]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace the name of a sub-module."""
        return ast.copy_location(ast.Name(id=self.locals.get(node.id, node.id), ctx=node.ctx), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace a constant or a sub-module by its name in the program."""
        return self._named(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The same for a path with a number in it: ``getattr(self.blocks, "0")``."""
        return self._named(node)

    def _named(self, node: ast.Attribute | ast.Call) -> ast.AST:
        dotted = dotted_path(node)
        if not dotted.startswith("self."):
            return self.generic_visit(node)
        path = self.prefix + dotted.removeprefix("self.")
        name = self.bodies.get(path) or (self.constants.get(path) if not self.prefix else None)
        if name is None:
            raise StageError(f"The graph reads {dotted}, which a program cannot hold.")
        return ast.Name(id=name, ctx=ast.Load())


class Rename(ast.NodeTransformer):
    """Renames inputs, and replaces `x.item()` by `x` for an input that is a plain float."""

    def __init__(self, renames: Mapping[str, str], floats: set[str]) -> None:
        self.renames = renames
        self.floats = floats

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace the name of an input."""
        return ast.copy_location(ast.Name(id=self.renames.get(node.id, node.id), ctx=node.ctx), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `x.item()` of a float."""
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr="item") if name in self.floats:
                return ast.Name(id=name, ctx=ast.Load())
        return node
