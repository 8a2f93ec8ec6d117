"""Names that an artifact's graph uses: those that it imports or defines, and those that torch's printer leaves out.

torch prints a function of Python as ``math_ceil`` (`_Namespace` and `add_global` in torch/fx/graph.py), and writes no
import for it.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
import re
import sys
from collections.abc import Collection, Iterable, Sequence

from repro_kit.errors import CannotRunError
from repro_kit.graph.effects import NAMESPACES
from repro_kit.graph.program import Function
from repro_kit.graph.python_code import bound_names, joined

_HEADER = frozenset({"pathlib", "torch", "device", "inf", "nan"})  # every program has them (graph/program_text.py)
_KNOWN = {
    "tensor": "from torch import tensor",
    "Size": "from torch import Size",
    "rand_strided": "from torch._dynamo.testing import rand_strided",
    "fx": "import torch.fx as fx",
    "fx_pytree": "import torch.fx._pytree as fx_pytree",
    "pytree": "import torch.utils._pytree as pytree",
    "math": "import math",
    "operator": "import operator",
    "_operator": "import _operator",
    "sympy": "import sympy",
}
#: Operators that torch has renamed, with the same arguments: each is looked for where a torch lacks the other.
_RENAMED = (("prims._low_memory_max_pool2d_with_offsets", "prims._low_memory_max_pool_with_offsets"),)
_PRINTED = re.compile(r"_?(math|operator)_(\w+)")
_HOMES = {"math": math, "operator": operator}
_SYMBOLIC = re.compile(r"sym_\w+|_sym_\w+")  # torch.sym_max, torch._sym_sqrt …
_NAMESPACE = re.compile(r"\btorch\.ops\.(\w+)\.")
_REGISTERS = re.compile(
    r"\b(?:load_library|custom_op|triton_op|register_\w+|impl|impl_abstract|define|Library|infer_schema)\b"
)
_OF_ARTIFACTS = frozenset({"Repro", "load_args", "mod", "args"})


def qualified(value: ast.expr) -> ast.expr:
    """`value` with ``torch.tensor`` for ``tensor``, which an artifact imports by its name.

    A tensor without elements is printed with a `size`, which only ``torch.empty`` takes.
    """

    class Qualified(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            sizes = [each for each in node.keywords if each.arg == "size"]
            if ast.unparse(node.func) != "torch.tensor" or not sizes:
                return node
            others = [each for each in node.keywords if each.arg != "size"]
            return ast.Call(ast.parse("torch.empty", mode="eval").body, [sizes[0].value], others)

        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.parse("torch.tensor", mode="eval").body if node.id == "tensor" else node

    changed = Qualified().visit(value)
    assert isinstance(changed, ast.expr)
    return changed


def renamed(text: str, lost: str) -> str:
    """The program `text` with the other name of the operator over which this torch raised `lost`; empty without one."""
    for pair in _RENAMED:
        for name, other in (pair, pair[::-1]):
            if f"torch.ops.{name}." in text and f"'{name.partition('.')[2]}'" in lost:
                return text.replace(f"torch.ops.{name}.", f"torch.ops.{other}.")
    return ""


def needed(top: Sequence[ast.stmt], functions: Iterable[Function], lines: Iterable[str]) -> tuple[tuple[str, ...], str]:
    """The import lines, and the definitions of the artifact's own, that the functions and the `lines` of inputs need.

    `top` are the artifact's statements. Raises CannotRunError for names that nothing supplies.
    """
    functions = tuple(functions)
    own = {function.name for function in functions}
    wanted = [name for function in functions for name in _free(function)]
    wanted += _read_by([node for line in lines for node in ast.parse(line).body])
    texts = [statement.text for function in functions for statement in function.statements]
    # Operators of others are there once something has been imported, or defined in the artifact.
    others = any(name not in NAMESPACES for text in texts for name in _NAMESPACE.findall(text))
    imports = [ast.unparse(node) for node in top if others and _imports_others(node)]
    defined = [node for node in top if others and _registers(node)]
    wanted += _read_by(defined)
    unknown: list[str] = []
    seen = set(own)
    while wanted:
        name = wanted.pop(0)
        if name in seen:
            continue
        seen.add(name)
        line = _import_of(name, top)
        definition = None if line else _definition_of(name, top)
        if line:
            imports.append(line)
        elif definition is not None:
            defined.append(definition)
            wanted += _read_by([definition])
        elif name not in _HEADER and not hasattr(builtins, name):
            unknown.append(name)
    if unknown:
        raise CannotRunError(
            f"The artifact uses {', '.join(unknown)}, which it neither defines nor imports, so it cannot be run alone; "
            "add the import or the definition to it."
        )
    at = {id(node): number for number, node in enumerate(top)}
    kept = sorted(dict.fromkeys(defined), key=lambda node: at[id(node)])
    return tuple(dict.fromkeys(imports)), joined(ast.unparse(node) for node in kept)


def _imports_others(node: ast.stmt) -> bool:
    """Whether this imports something that is neither torch's nor of Python's library: it may register operators."""
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    own = {*sys.stdlib_module_names, "torch", "functorch", ""}
    return any(module.partition(".")[0] not in own for module in modules)


def _registers(node: ast.stmt) -> bool:
    """Whether this statement of the artifact may define an operator, by its words."""
    match node:
        case ast.FunctionDef(decorator_list=decorators):
            return any(_REGISTERS.search(ast.unparse(each)) for each in decorators)
        case ast.Expr(value=ast.Call(func=function)) | ast.Assign(value=ast.Call(func=function)):
            return bool(_REGISTERS.search(ast.unparse(function)))
    return False


def _free(function: Function) -> list[str]:
    bound = {*function.params, *(statement.target for statement in function.statements)}
    statements = (*function.statements, function.returns)
    return [name for statement in statements for name in statement.reads if name not in bound]


def _read_by(nodes: Sequence[ast.AST]) -> list[str]:
    """The names that `nodes` read and do not bind themselves."""
    parts = [part for node in nodes for part in ast.walk(node)]
    bound: set[str] = set()
    for part in parts:
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.Import() | ast.ImportFrom():
                bound |= bound_names(part)
    return [part.id for part in parts if isinstance(part, ast.Name) and part.id not in bound]


def _import_of(name: str, top: Sequence[ast.stmt]) -> str:
    """The import that gives `name`: the artifact's own, else a known one; empty if there is none."""
    if name in _HEADER:
        return ""
    for node in top:
        if isinstance(node, ast.Import | ast.ImportFrom) and name in bound_names(node):
            return ast.unparse(node)
    if _definition_of(name, top) is not None or hasattr(builtins, name):
        return ""
    printed = _PRINTED.fullmatch(name)
    if printed and hasattr(_HOMES[printed[1]], printed[2]):
        return f"from {printed[1]} import {printed[2]} as {name}"
    if _SYMBOLIC.fullmatch(name):
        return f"from torch import {name}"
    stars = [node.module for node in top if isinstance(node, ast.ImportFrom) and "*" in bound_names(node)]
    of_modules = "torch.nn" in stars and name[:1].isupper()  # every artifact has `from torch.nn import *`
    home = "torch.nn" if of_modules else next((star for star in stars if star != "torch.nn"), None)
    return _KNOWN.get(name) or (f"from {home} import {name}" if home else "")


def _definition_of(name: str, top: Sequence[ast.stmt], skipped: Collection[str] = _OF_ARTIFACTS) -> ast.stmt | None:
    """The last statement of the artifact that defines `name`: an assignment, a function or a class."""
    found: ast.stmt | None = None
    for node in top:
        match node:
            case ast.FunctionDef(name=defined) | ast.ClassDef(name=defined):
                found = node if defined == name and name not in skipped else found
            case ast.Assign(targets=[ast.Name(id=assigned)]):
                found = node if assigned == name and name not in skipped else found
    return found
