"""Evaluate the size expressions that torch prints (sympy's text of symbolic ints), without running code."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from repro_kit.errors import StageError

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
        case ast.Call(func=ast.Name(id=name), args=args) if named := _OF_MATH.fullmatch(name):
            return _called(getattr(math, named[1]), args, symbols)
    raise StageError(f"The size {ast.unparse(node)} cannot be evaluated.")


def _called(function: Callable[..., Any], args: Sequence[ast.expr], symbols: Mapping[str, int]) -> int | float:
    try:
        result = function(*(evaluate(arg, symbols) for arg in args))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise StageError(f"A size cannot be evaluated: {error}.") from None
    return float(result) if isinstance(result, float) else int(result)
