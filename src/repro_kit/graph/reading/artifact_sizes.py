"""Sizes in an artifact: expressions, the values of symbols, and tensors whose values must add up to a size."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from repro_kit.errors import StageError
from repro_kit.graph.program import Function

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "Max": max,
    "Min": min,
    "max": max,
    "min": min,
    "floor": math.floor,
    "ceiling": math.ceil,
    "FloorDiv": operator.floordiv,
    "CeilDiv": lambda a, b: -(-a // b),
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "PowByNatural": operator.pow,
    "TruncToInt": math.trunc,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "ToFloat": float,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "ModularIndexing": lambda a, b, c: a // b % c,
    "Abs": abs,
    "Identity": lambda a: a,
    "RoundToInt": round,
    "RoundDecimal": round,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
}
#: How torch prints other functions: of Python (``math_ceil``), and of sympy (``OpaqueUnaryFn_sqrt``).
_OF_MATH = re.compile(r"(?:math_|OpaqueUnaryFn_|_?sym_)?(sqrt|ceil|floor|trunc|exp|log|log2|sin|cos|tan|pow)")


def evaluate(node: ast.expr, symbols: Mapping[str, int]) -> int | float:
    """The value of an expression over `symbols`. Raises StageError when the expression is not arithmetic."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name) if name in symbols:
            return symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate(operand, symbols)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            value = _BINARY[type(op)](evaluate(left, symbols), evaluate(right, symbols))
            return float(value) if isinstance(value, float) else int(value)
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
            return _called(_CALLS[name], args, symbols)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name) | ast.Name(id=name), args=args) if (
            named := _OF_MATH.fullmatch(name)
        ):
            return _called(getattr(math, named[1]), args, symbols)
    raise StageError(f"The size {ast.unparse(node)} cannot be evaluated.")


def _called(function: Callable[..., Any], args: Sequence[ast.expr], symbols: Mapping[str, int]) -> int | float:
    try:
        result = function(*(evaluate(arg, symbols) for arg in args))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise StageError(f"A size cannot be evaluated: {error}.") from None
    return float(result) if isinstance(result, float) else int(result)


_SYMBOL = re.compile(r"[su]\d+")


def repeats_in(graph: Function) -> dict[str, int]:
    """The sums of the tensors that say how often an element is repeated, where the graph has the size of the result."""
    found: dict[str, int] = {}
    inputs = {name: name for name in graph.params}
    for statement in graph.statements:
        if statement.target and statement.text in inputs:  # Dynamo renames its inputs
            inputs[statement.target] = inputs[statement.text]
        if "repeat_interleave" not in statement.text:
            continue
        match ast.parse(statement.text).body[0]:
            case ast.Expr(value=ast.Call(func=func, args=[first, *rest], keywords=keywords)):
                is_function = ast.unparse(func) == "torch.repeat_interleave"
                repeats = rest[0] if is_function and rest else first
                sizes = [each.value.value for each in keywords if _is_size(each)]  # type: ignore[attr-defined]
                if isinstance(repeats, ast.Name) and sizes:
                    found[inputs.get(repeats.id, repeats.id)] = sizes[0]
    return found


def _is_size(keyword: ast.keyword) -> bool:
    return (
        keyword.arg == "output_size"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, int)
    )


def is_symbol(name: str) -> bool:
    """Whether `name` is that of a symbolic size."""
    return bool(_SYMBOL.fullmatch(name))


def symbol_values(tree: ast.Module, load_args: ast.FunctionDef) -> dict[str, int]:
    """The value of each symbol: of the lines ``s33 = 2`` at the top, which older versions of torch leave out.

    There the symbols have the values of the sizes among the arguments, in their order: Dynamo passes a size before the
    first tensor that has it.
    """
    return {**_unnamed(load_args), **_named(tree)}


def _named(tree: ast.Module) -> dict[str, int]:
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, int)
    }


def _unnamed(load_args: ast.FunctionDef) -> dict[str, int]:
    values: list[int] = []
    sizes: list[tuple[int, list[str]]] = []  # of each tensor: how many of `values` come before it, and its symbols
    for node in load_args.body:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="symint"), args=[ast.Constant(value=int(value))])):
                values.append(value)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="tensor"), args=[_, *shapes])):
                names = [part.id for shape in shapes for part in ast.walk(shape) if isinstance(part, ast.Name)]
                sizes.append((len(values), [name for name in names if _SYMBOL.fullmatch(name)]))
    distinct = list(dict.fromkeys(name for _, names in sizes for name in names))
    if len(distinct) == len(values):
        return dict(zip(distinct, values, strict=True))
    return _nearest(values, sizes)


def _nearest(values: Sequence[int], sizes: Sequence[tuple[int, list[str]]]) -> dict[str, int]:
    """The values of symbols where the graph has further numbers: those right before the first tensor that has them.

    Where all numbers come before all tensors, as in a backward, the first of them are taken.
    """
    found: dict[str, int] = {}
    used = 0
    first = min((before for before, _ in sizes), default=0)
    for before, names in sizes:
        new = [name for name in dict.fromkeys(names) if name not in found]
        start = used if first == len(values) else max(used, before - len(new))
        taken = values[start : min(before, start + len(new))]
        if new and len(taken) == len(new):
            found.update(zip(new, taken, strict=True))
            used = start + len(new)
    return found


def repeats_of(load_args: ast.FunctionDef) -> list[tuple[int, int]]:
    """(tensor, size) by their places among the arguments: what the tensor says how often is repeated fills the size.

    Since 2.11 torch writes it after the arguments, because random numbers would not do.
    """
    pairs = []
    for node in load_args.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "hasattr(reader, 'args')":
            places = {
                ast.unparse(part.targets[0]): part.value.slice.value
                for part in node.body
                if isinstance(part, ast.Assign)
                and isinstance(part.value, ast.Subscript)
                and isinstance(part.value.slice, ast.Constant)
                and isinstance(part.value.slice.value, int)
            }
            if places.keys() >= {"_repeats", "_output_size"}:
                pairs.append((places["_repeats"], places["_output_size"]))
    return pairs
