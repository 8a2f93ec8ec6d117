"""Recorded metadata of values, inputs that replace them, and plainer values of inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro_kit.graph.inputs import Data, DataKind, Input, ScalarInput, Strided, TensorInput, number

_DISCRETE = ("torch.int8", "torch.int16", "torch.int32", "torch.int64", "torch.uint8", "torch.uint16", "torch.uint32")
_SCALARS = ("int", "float", "bool", "str", "NoneType")


@dataclass(frozen=True)
class TensorRecord:
    """A tensor when it was made. Strides and `offset` are in elements; `low` and `high` are its range of values.

    `samples`: all elements of a small tensor; else some, with those that random values lack (-0.0, inf, nan). `form`:
    what holds of all elements together. "rises": none is less than the one before, as of offsets, boundaries and sorted
    indices; "permutation": every whole number from 0 on; "probabilities": the last dimension sums to one; "lower" and
    "upper": a mask that is true in one corner.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0
    dtype: str = "torch.float32"
    device: str = "cpu"
    requires_grad: bool = False
    storage: str | None = None  # equal for values that share memory
    low: float | None = None
    high: float | None = None
    file: str | None = None  # in `inputs/`, where the values are stored
    samples: tuple[float, ...] = ()
    form: str = ""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class ScalarRecord:
    """A Python number, string or None."""

    value: int | float | bool | str | None


Record = TensorRecord | ScalarRecord | tuple[Any, ...] | None
Metadata = Mapping[str, Record]


def records(values: Mapping[str, Any]) -> dict[str, Record]:
    """The ``values`` of a zygote's reply (docs/explanation/zygote.md) as records; None for a value of unknown form."""
    return {name: _record(value) for name, value in values.items()}


def _record(value: Any) -> Record:
    match value:
        case {"shape": shape, "dtype": dtype}:
            stride, storage = value.get("stride"), value.get("storage")
            return TensorRecord(
                tuple(shape),
                tuple(stride) if stride is not None else contiguous(shape),
                int(value.get("offset") or 0),
                str(dtype),
                str(value.get("device") or "cpu"),
                bool(value.get("requires_grad")),
                None if storage is None else str(storage),
                value.get("min"),
                value.get("max"),
                value.get("file"),
                tuple(float(sample) if isinstance(sample, str) else sample for sample in value.get("samples") or ()),
                str(value.get("form") or ""),
            )
        case {"value": scalar} if value.get("python", "int") in _SCALARS:
            return ScalarRecord(scalar)
        case list() | tuple():
            return tuple(_record(part) for part in value)
        case int() | float() | bool() | str():
            return ScalarRecord(value)
    return None


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, in elements."""
    return tuple(math.prod(max(size, 1) for size in shape[at + 1 :]) for at in range(len(shape)))


def span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """The number of storage elements from a tensor's first to its last element, both included."""
    if math.prod(shape) == 0:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def is_contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements lie in order without gaps. Strides of dimensions of size 1 do not matter."""
    if math.prod(shape) == 0:
        return True
    want = contiguous(shape)
    return all(size == 1 or step == need for size, step, need in zip(shape, stride, want, strict=True))


def input_for(name: str, record: Record) -> Input | None:
    """An input called `name` that replaces a recorded value; None when the value cannot be an input.

    Stored values are loaded; other values are generated (see `generated`).
    """
    if isinstance(record, ScalarRecord):
        return ScalarInput(name, record.value)
    if not isinstance(record, TensorRecord):
        return None
    plain = is_contiguous(record.shape, record.stride)
    data = Data("load", None, (record.file,)) if record.file else None
    sizes = record.shape if plain else (span(record.shape, record.stride),)
    return TensorInput(
        name,
        data or generated(record, sizes),
        None if plain else Strided(record.shape, record.stride),
        None if data or record.dtype == "torch.float32" else record.dtype,
        None if data or record.device == "cpu" else record.device,
        record.requires_grad,
    )


#: What makes values of a form; those that rise are made between their ends.
_MADE: Mapping[str, DataKind] = {
    "permutation": "randperm",
    "probabilities": "softmax",
    "lower": "tril",
    "upper": "triu",
}


def generated(record: TensorRecord, sizes: tuple[int, ...]) -> Data:
    """Data like the record's: normal, or uniform in [0, 1) for non-negative floats; integers of the same range.

    What holds of all elements together goes on to hold: offsets stay offsets of as many rows, a mask its corner.
    """
    whole = record.dtype in _DISCRETE
    form = record.form if sizes == record.shape else ""
    if form in _MADE:
        return Data(_MADE[form], sizes)
    if form == "rises":
        low, high = (int(end or 0) if whole else _one_digit(end or 0.0) for end in (record.low, record.high))
        return Data("linspace", sizes, (low, high) if low < high else (0.0, 1.0))
    if record.dtype == "torch.bool":
        if record.low is not None and record.low == record.high:
            return Data("ones" if record.low else "zeros", sizes)
        return Data("randint", sizes, (0, 2))
    if whole:
        return Data("randint", sizes, (int(record.low or 0), int(record.high or 0) + 1))
    if "float8" in record.dtype or "float4" in record.dtype:
        return Data("ones", sizes)  # torch generates no random numbers of these dtypes
    if record.low is not None and record.low >= 0 and "complex" not in record.dtype:
        return Data("rand", sizes)
    return Data("randn", sizes)


def constants(record: TensorRecord) -> Iterator[Data]:
    """Values that the record's tensor has: one of them in all places, the special ones first; then all of few.

    A finite number is rounded to one digit: a program that needs it shows how large the user's values are, and not
    what they are.
    """
    rounded = [_one_digit(sample) for sample in record.samples]
    distinct = {number(value): value for value in rounded}  # by text, since 0.0 == -0.0
    for value in sorted(distinct.values(), key=_is_common):
        yield Data("full", record.shape, (value,))
    written = literal(record, len(rounded))
    if written is not None and written.kind == "tensor":
        yield written


def literal(record: TensorRecord, most: int) -> Data | None:
    """The record's values, rounded to one digit and written out; None if not all are known, or more than `most`."""
    if not 0 < record.elements == len(record.samples) <= most:
        return None
    texts = [number(_one_digit(sample)) for sample in record.samples]
    if len(set(texts)) == 1:
        return Data("full", record.shape, (_one_digit(record.samples[0]),))
    return Data("tensor", record.shape, (_nested(texts, record.shape),))


def _one_digit(value: float) -> float:
    if isinstance(value, int):
        unit: int = 10 ** (len(str(abs(value))) - 1)
        return int(value / unit) * unit  # towards 0, so that an index stays within its bounds
    return float(f"{value:.0e}") if math.isfinite(value) else value


def _is_common(value: float) -> bool:
    return math.isfinite(value) and number(value) != "-0.0"


def _nested(texts: Sequence[str], shape: Sequence[int]) -> str:
    """The literal of a tensor whose elements have these texts."""
    if not shape:
        return texts[0]
    step = len(texts) // shape[0]
    rows = (_nested(texts[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0]))
    return f"[{', '.join(rows)}]"


#: How plain the values of each kind are. Stored values and views are not chosen by the kind.
_RANKS = {"full": 1, "arange": 2, "linspace": 3, "tril": 2, "triu": 2, "tensor": 3, "randn": 4, "rand": 4, "randint": 4}
_RANKS |= {"empty": 4, "randperm": 4, "softmax": 4}
_WITH_FORM = ("linspace", "tril", "triu", "softmax")  # kinds whose values plainer ones would not be like
#: The dtype of a line that names none, by the kind of its data, or by the type of the value that fills it; else floats.
_DEFAULTS: Mapping[object, str] = {
    "randint": "torch.int64",
    "arange": "torch.int64",
    int: "torch.int64",
    bool: "torch.bool",
}
_ORDERED = ("int", "float16", "float32", "float64")  # parts of the dtypes that `torch.arange` makes
_FEW = 8  # values that may be written out


def rank(line: TensorInput) -> int:
    """How far the values are from ones or zeros; 4: they are random."""
    return _RANKS.get(line.data.kind, 0)


def is_long_literal(line: TensorInput) -> bool:
    """Whether the line has more literal values than a reader wants to see."""
    return line.data.kind == "tensor" and math.prod(line.data.sizes or ()) > _FEW


def plainest(line: TensorInput) -> TensorInput:
    """`line` with ones; with zeros for whole numbers, which may be indices. Itself where its values are no random ones.

    An index of 0 stays valid while the dimension shrinks.
    """
    return next(plainer(line), line)


def plainer(line: TensorInput, record: TensorRecord | None = None) -> Iterator[TensorInput]:
    """`line` with plainer values, the plainest first. `record`: its values, where they are known."""
    yield from (form for form in _forms(line, record) if rank(form) < rank(line))


def _forms(line: TensorInput, record: TensorRecord | None) -> Iterator[TensorInput]:
    if line.data.kind == "linspace" and isinstance(line.data.args[0], float):
        yield replace(line, data=Data("ones", line.data.sizes))  # none is less than the one before
    if line.data.kind == "linspace" and "int" in (line.dtype or "") and _counts(line.data):
        yield replace(line, data=Data("arange", line.data.sizes))  # the same numbers
    if (
        rank(line) == 0
        or line.data.sizes is None
        or line.data.kind in _WITH_FORM
        or (line.data.kind == "tensor" and line.dtype is None)
    ):
        return
    if line.data.kind == "randperm":
        yield replace(line, data=Data("arange", line.data.sizes))
        return
    dtype = line.dtype or _DEFAULTS.get(type(line.data.args[0]) if line.data.kind == "full" else line.data.kind)
    whole = dtype is not None and "int" in dtype
    low, high = line.data.args if line.data.kind == "randint" else (0, 2)
    several = math.prod(line.data.sizes) > 1
    kinds: tuple[DataKind, ...] = ("zeros", "ones") if whole else ("ones",) if several else ("ones", "zeros")
    for kind in kinds:
        if low <= (kind == "ones") < high:
            yield replace(line, data=Data(kind, line.data.sizes), dtype=dtype)
    if several and (dtype is None or any(word in dtype for word in _ORDERED)):
        yield replace(line, data=Data("arange", line.data.sizes), dtype=dtype or "torch.float32")
    written = None if record is None or line.strided is not None else literal(record, _FEW)
    if written is not None and written.sizes == line.data.sizes:
        yield replace(line, data=written)


def _counts(data: Data) -> bool:
    """Whether the numbers of a `linspace` are 0, 1, 2, …"""
    return data.sizes is not None and data.args == (0, math.prod(data.sizes) - 1)


def _every(strided: Strided, whole: tuple[int, ...]) -> str:
    """A row of a row as a slice with a step, ``[1::2]``; "" for others."""
    if not (len(whole) == len(strided.shape) == 1 and strided.shape[0] > 1 and strided.stride[0] > 1):
        return ""
    (count,), (step,) = strided.shape, strided.stride
    end = strided.offset + (count - 1) * step + 1
    return f"[{strided.offset or ''}:{'' if end + step > whole[0] else end}:{step}]" if end <= whole[0] else ""


def plain_view(line: TensorInput, base: TensorInput | None = None) -> str:
    """The line with ``.t()``, ``.permute(…)``, ``.view(…)`` or a slice in place of ``as_strided``, where they say it.

    `base`: the input that it is a view of. The sizes, the strides and what shares memory stay exactly the same.
    """
    strided, source = line.strided, base or line
    if strided is None or source.data.sizes is None:
        return line.line
    if base is not None and (len(base.data.sizes or ()) != 1 or base.strided is not None):
        return line.line
    offset = f", {strided.offset}" if strided.offset else ""
    written = f".as_strided({strided.shape!r}, {strided.stride!r}{offset})"
    if part := _every(strided, source.data.sizes):
        return line.line.replace(written, part)
    order = sorted(range(len(strided.shape)), key=lambda at: -strided.stride[at])
    inside = [strided.shape[at] for at in order]  # the sizes as they lie in memory
    total, whole = math.prod(inside), math.prod(source.data.sizes)
    if not total or any(strided.stride[at] != math.prod(inside[place + 1 :]) for place, at in enumerate(order)):
        return line.line
    back = [order.index(at) for at in range(len(order))]
    turned = "" if back == sorted(back) else ".t()" if len(back) == 2 else f".permute({', '.join(map(str, back))})"
    if base is not None:
        end = "" if strided.offset + total == whole else strided.offset + total
        part = f"[{strided.offset or ''}:{end}]" if total != whole else ""
        shaped = "" if part and len(inside) == 1 else f".view({', '.join(map(str, inside))})"
        return line.line.replace(written, f"{part}{shaped}{turned}")
    if line.base or total != whole or line.data.kind == "tensor":
        return line.line
    return replace(line, data=replace(line.data, sizes=tuple(inside))).line.replace(written, turned)
