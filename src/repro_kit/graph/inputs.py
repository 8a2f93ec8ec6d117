"""The lines of `calls()`, which build the arguments of a program's graph."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

_Sized = Literal["randn", "rand", "zeros", "ones", "empty", "_efficientzerotensor"]
_Formed = Literal["softmax", "tril", "triu"]
DataKind = _Sized | _Formed | Literal["full", "randint", "randperm", "arange", "linspace", "tensor", "load", "view"]
Bit = Literal["conj", "neg"]
ZERO_TENSOR: DataKind = "_efficientzerotensor"  # zeros without a storage, as gradients may be
_DEVICE = ("device", "torch.device")
_SIZED = get_args(_Sized)
#: The kind of what the values are made of, and the method that makes them: probabilities, and a mask of one corner.
_ENDINGS: dict[str, tuple[_Sized, str]] = {
    "softmax": ("rand", ".softmax(-1)"),
    "tril": ("ones", ".tril()"),
    "triu": ("ones", ".triu(1)"),
}


@dataclass(frozen=True)
class Data:
    """The source of a tensor's values.

    `sizes`: the shape of the source, before any ``as_strided``; None if the text has none (`load`, `view`). `args`:
    ``(value,)`` of `full`, ``(low, high)`` of `randint` and of `linspace`, which makes numbers that rise,
    ``(literal,)`` of `tensor` (as text), ``(file,)`` of `load`, ``(name,)`` of `view`.
    """

    kind: DataKind
    sizes: tuple[int, ...] | None = None
    args: tuple[Any, ...] = ()

    @property
    def file(self) -> str | None:
        """The name of the stored file; None for other kinds."""
        return self.args[0] if self.kind == "load" else None

    @property
    def base(self) -> str | None:
        """The input that this is a view of; None for other kinds."""
        return self.args[0] if self.kind == "view" else None


@dataclass(frozen=True)
class Strided:
    """``.as_strided(shape, stride, offset)`` of the source; `stride` and `offset` in elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class TensorInput:
    """A tensor: ``name = torch.nn.Parameter(torch._neg_view(SOURCE.as_strided(…).conj()))`` or a part of this form."""

    name: str
    data: Data
    strided: Strided | None = None
    dtype: str | None = None  # "torch.float16"; None: the source's default
    device: str | None = None  # None: the default device
    requires_grad: bool = False
    parameter: bool = False
    bits: tuple[Bit, ...] = ()  # torch's bits for values that are conjugated or negated only when they are used
    buffer: bool = False  # a buffer of the module that torch.export or AOTInductor gets, which keeps it between calls

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The final shape; None if only the stored file has it."""
        return self.strided.shape if self.strided else self.data.sizes

    @property
    def stride(self) -> tuple[int, ...] | None:
        """Strides in elements; None for a contiguous tensor."""
        return self.strided.stride if self.strided else None

    @property
    def offset(self) -> int:
        """The offset of the first element within the source, in elements."""
        return self.strided.offset if self.strided else 0

    @property
    def base(self) -> str | None:
        """The input that this is a view of."""
        return self.data.base

    @property
    def elements(self) -> int | None:
        """The number of elements; None: unknown."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs that this one needs."""
        return (self.base,) if self.base else ()

    @property
    def line(self) -> str:
        """The line of `calls()`."""
        text = self._source()
        if self.strided:
            offset = f", {self.strided.offset}" if self.strided.offset else ""
            text += f".as_strided({self.strided.shape!r}, {self.strided.stride!r}{offset})"
        if "conj" in self.bits:
            text += ".conj()"
        if "neg" in self.bits:
            text = f"torch._neg_view({text})"
        if self.parameter:
            text = f"torch.nn.Parameter({text}{'' if self.requires_grad else ', requires_grad=False'})"
        elif self.buffer:
            text = f"torch.nn.Buffer({text})"
        elif self.requires_grad:
            text += ".requires_grad_()"
        return f"{self.name} = {text}"

    def _source(self) -> str:
        kind, sizes, args = self.data.kind, self.data.sizes or (), self.data.args
        if kind in ("view", "load"):
            return str(args[0]) if kind == "view" else f'load("{args[0]}")'
        kind, tail = _ENDINGS.get(kind, (kind, ""))
        if kind in _SIZED:
            first = ", ".join(map(str, sizes)) if sizes else "()"
        elif kind == "tensor":
            first = args[0]
        elif kind in ("arange", "randperm"):
            first = str(math.prod(sizes))
        else:
            bounds = [number(arg) for arg in args]
            shape = str(sizes[0]) if kind == "linspace" else repr(sizes)
            first = ", ".join([shape, *bounds] if kind == "full" else [*bounds, shape])
        options = f", dtype={self.dtype}" if self.dtype else ""
        options += f", device={self.device!r}" if self.device else ""
        if kind == "arange" and len(sizes) != 1:
            tail = f".reshape({', '.join(map(str, sizes)) or '()'})"
        return f"torch.{kind}({first}{options}){tail}"


@dataclass(frozen=True)
class ScalarInput:
    """``name = 5``: an int, float, bool, str or None."""

    name: str
    value: int | float | bool | str | None

    reads = ()

    @property
    def line(self) -> str:
        """The line of `calls()`."""
        return f"{self.name} = {number(self.value)}"


@dataclass(frozen=True)
class OpaqueInput:
    """Any other statement that binds names, kept as canonical text."""

    names: tuple[str, ...]
    text: str
    reads: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The line of `calls()`."""
        return self.text


@dataclass(frozen=True)
class DynamicMark:
    """A statement about inputs that binds no name: ``torch._dynamo.mark_dynamic(x, 0)``."""

    text: str
    reads: tuple[str, ...]

    @property
    def line(self) -> str:
        """The line of `calls()`."""
        return self.text


Input = TensorInput | ScalarInput | OpaqueInput | DynamicMark


def names_of(line: Input) -> tuple[str, ...]:
    """The names that a line binds."""
    match line:
        case OpaqueInput():
            return line.names
        case DynamicMark():
            return ()
    return (line.name,)


def number(value: Any) -> str:
    """A literal as Python text, with ``inf`` and ``nan`` as names (both are in a program's scope)."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return repr(value)


def parse_input(node: ast.stmt) -> Input:
    """The input for a statement of `calls()`. A statement outside the grammar becomes an `OpaqueInput`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            scalar = _scalar(value)
            if scalar is not None:
                return ScalarInput(name, scalar[0])
            tensor = _tensor(name, value)
            if tensor is not None:
                return tensor
    return _opaque(node)


def _opaque(node: ast.stmt) -> OpaqueInput | DynamicMark:
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    bound = tuple(dict.fromkeys(part.id for part in names if not isinstance(part.ctx, ast.Load)))
    reads = tuple(dict.fromkeys(part.id for part in names if isinstance(part.ctx, ast.Load) and part.id not in bound))
    text = ast.unparse(node)
    return OpaqueInput(bound, text, reads) if bound else DynamicMark(text, reads)


def _scalar(node: ast.expr) -> tuple[Any] | None:
    sign, inner = 1, node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, inner = -1, node.operand
    match inner:
        case ast.Name(id="inf" | "nan" as name):
            return (sign * float(name),)
        case ast.Constant(value=bool() | str() | None as value) if sign == 1:
            return (value,)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return (sign * value,)
    return None


def _tensor(name: str, node: ast.expr) -> TensorInput | None:
    parameter = buffer = requires_grad = False
    match node:
        case ast.Call(func=func, args=[inner], keywords=[]) if ast.unparse(func) == "torch.nn.Buffer":
            node, buffer = inner, True
        case ast.Call(func=func, args=[inner], keywords=keywords) if ast.unparse(func) == "torch.nn.Parameter":
            options = {keyword.arg: _literal(keyword.value) for keyword in keywords}
            if set(options) - {"requires_grad"}:
                return None
            node, parameter, requires_grad = inner, True, options.get("requires_grad", True) is True
        case ast.Call(func=ast.Attribute(value=inner, attr="requires_grad_"), args=[], keywords=[]):
            node, requires_grad = inner, True
    node, bits = _bits(node)
    strided = None
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="as_strided"), args=args, keywords=[]):
            strided = _strided(args)
            if strided is None:
                return None
            node = inner
    source = _source(node)
    if source is None:
        return None
    return TensorInput(
        name,
        source[0],
        strided,
        *source[1:],
        requires_grad=requires_grad,
        parameter=parameter,
        buffer=buffer,
        bits=bits,
    )


def _bits(node: ast.expr) -> tuple[ast.expr, tuple[Bit, ...]]:
    """(the expression within, bits) of ``torch._neg_view(TENSOR.conj())`` or a part of this form."""
    bits: tuple[Bit, ...] = ()
    match node:
        case ast.Call(func=func, args=[inner], keywords=[]) if ast.unparse(func) == "torch._neg_view":
            node, bits = inner, ("neg",)
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="conj"), args=[], keywords=[]):
            node, bits = inner, ("conj", *bits)
    return node, bits


def _strided(args: list[ast.expr]) -> Strided | None:
    values = [_literal(arg) for arg in args]
    match values:
        case [tuple() | list() as shape, tuple() | list() as stride, *offset] if len(offset) <= 1:
            first = offset[0] if offset else 0
            if isinstance(first, int) and _all_int(shape) and _all_int(stride):
                return Strided(tuple(shape), tuple(stride), first)
    return None


def _source(node: ast.expr) -> tuple[Data, str | None, str | None] | None:
    """(data, dtype, device) of a SOURCE in the grammar."""
    source: tuple[Data, str | None, str | None] | None = None
    match node:
        case ast.Name(id=name):
            source = Data("view", None, (name,)), None, None
        case ast.Call(func=ast.Name(id="load"), args=[ast.Constant(value=str(file))], keywords=[]):
            source = Data("load", None, (file,)), None, None
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="reshape"), args=args, keywords=[]):
            source = _reshaped(_source(inner), _sizes(args))
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr=attr)) if attr in _ENDINGS:
            made = _source(inner)
            is_known = made is not None and ast.unparse(node) == ast.unparse(inner) + _ENDINGS[attr][1]
            if made is not None and is_known and made[0].kind == _ENDINGS[attr][0]:
                source = replace(made[0], kind=attr), *made[1:]  # type: ignore[arg-type]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=attr), args=args, keywords=keywords):
            options, data = _options(keywords), _data(attr, args)
            source = (data, *options) if data is not None and options is not None else None
    return source


def _reshaped(
    source: tuple[Data, str | None, str | None] | None, sizes: tuple[int, ...] | None
) -> tuple[Data, str | None, str | None] | None:
    if source is None or sizes is None or source[0].kind != "arange":
        return None
    same = math.prod(sizes) == math.prod(source[0].sizes or ())
    return (replace(source[0], sizes=sizes), *source[1:]) if same else None


def _data(kind: str, args: list[ast.expr]) -> Data | None:
    if kind in _SIZED:
        sizes = _sizes(args)
        return Data(kind, sizes) if sizes is not None else None  # type: ignore[arg-type]
    match kind, args:
        case "full", [shape, value]:
            sizes, scalar = _sizes([shape]), _scalar(value)
            return Data("full", sizes, scalar) if sizes is not None and scalar is not None else None
        case "randint", [low, high, shape]:
            sizes, bounds = _sizes([shape]), (_literal(low), _literal(high))
            return Data("randint", sizes, bounds) if sizes is not None and _all_int(bounds) else None
        case "linspace", [low, high, ast.Constant(value=int(count))]:
            ends = _literal(low), _literal(high)
            return Data("linspace", (count,), ends) if all(isinstance(end, int | float) for end in ends) else None
        case (("arange" | "randperm"), [ast.Constant(value=int(count))]):
            return Data(kind, (count,))
        case "tensor", [literal]:
            return _tensor_literal(literal)
    return None


def _tensor_literal(node: ast.expr) -> Data | None:
    if any(isinstance(part, ast.Name) and part.id not in ("inf", "nan") for part in ast.walk(node)):
        return None
    if any(not isinstance(part, _LITERAL) for part in ast.walk(node)):
        return None
    sizes, inner = [], node
    while isinstance(inner, ast.List | ast.Tuple):
        sizes.append(len(inner.elts))
        if not inner.elts:
            break
        inner = inner.elts[0]
    return Data("tensor", tuple(sizes), (ast.unparse(node),))


_LITERAL = (ast.List, ast.Tuple, ast.Constant, ast.UnaryOp, ast.USub, ast.Name, ast.Load)


def _sizes(args: list[ast.expr]) -> tuple[int, ...] | None:
    values = [_literal(arg) for arg in args]
    if len(values) == 1 and isinstance(values[0], tuple | list):
        values = list(values[0])
    return tuple(values) if _all_int(values) else None


def _options(keywords: list[ast.keyword]) -> tuple[str | None, str | None] | None:
    dtype = device = None
    for keyword in keywords:
        match keyword:
            case ast.keyword(arg="dtype", value=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
                dtype = f"torch.{name}"
            case ast.keyword(arg="device", value=ast.Constant(value=str(name))):
                device = name
            case ast.keyword(arg="device", value=ast.Call() as call) if ast.unparse(call.func) in _DEVICE:
                parts = [_literal(part) for part in (*call.args, *(option.value for option in call.keywords))]
                device = ":".join(str(part) for part in parts)
            case _:
                return None
    return dtype, device


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None


def _all_int(values: Any) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
