"""The inputs of scripts that torch wrote before 2.1: a list `args` of sizes instead of a function ``load_args``.

Source of the formats: torch/_dynamo/debug_utils.py of torch 1.13 and 2.0 (`generate_compiler_repro_string`,
`generate_dynamo_fx_repro_string`). Each element is ``(size, stride, dtype, device[, requires_grad])``, or the call of
``rand_strided`` that is made of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_LIST = "args"
_MAKER = "rand_strided"


def load_args_of(nodes: Sequence[ast.stmt]) -> ast.FunctionDef | None:
    """The list `args` in `nodes` as the ``load_args`` that torch writes since 2.1; None if there is none."""
    elements: list[ast.expr] | None = None
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=listed)) if name == _LIST:
                elements = [*listed]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[one])) if (
                name == _LIST and elements is not None
            ):
                elements.append(one)
    if elements is None:
        return None
    lines = [line for number, element in enumerate(elements) for line in _lines(f"buf{number}", element)]
    function = ast.parse("def load_args(reader):\n" + "".join(f"    {line}\n" for line in lines or ["pass"])).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def compiles_dynamos_graph(tree: ast.Module) -> bool:
    """Whether the script has Dynamo compile its module, and does not give the module's aten graph to Inductor."""
    return any(name.endswith("_dynamo.optimize") for name in _called_names(tree))


def compares_results(tree: ast.Module) -> bool:
    """Whether the script compares the results with eager's: its failure is a wrong result."""
    return "same_two_models" in _called_names(tree)


def _called_names(tree: ast.Module) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def _lines(storage: str, element: ast.expr) -> Iterator[str]:
    """The calls of `reader` for one element."""
    match element:
        case ast.Tuple(elts=[size, stride, dtype, device, *rest]):
            grad = f", requires_grad={ast.unparse(rest[0])}" if rest else ""
        case ast.Call(func=ast.Name(id=name), args=[size, stride, dtype, device]) if name == _MAKER:
            grad = ""
        case _:
            yield f"reader.symint({ast.unparse(element)})"
            return
    size_of, stride_of, dtype_of, device_of = map(ast.unparse, (size, stride, dtype, device))
    yield f"{storage} = reader.storage(None, 0, device={device_of})"
    yield f"reader.tensor({storage}, {size_of}, {stride_of}, dtype={dtype_of}{grad})"
