"""Plain values of generated inputs: ones and zeros, numbers in order, or a few that are written out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from repro_kit.program.inputs import Data, DataKind, TensorInput
from repro_kit.program.value_records import TensorRecord, literal

#: How plain the values of each kind are. Stored values and views are not chosen by the kind.
_RANKS = {"full": 1, "arange": 2, "tensor": 3, "randn": 4, "rand": 4, "randint": 4, "empty": 4}
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
    if rank(line) == 0 or line.data.sizes is None or (line.data.kind == "tensor" and line.dtype is None):
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


def plain_view(line: TensorInput, base: TensorInput | None = None) -> str:
    """The line with ``.t()``, ``.permute(…)``, ``.view(…)`` or a slice in place of ``as_strided``, where they say it.

    `base`: the input that it is a view of. The sizes, the strides and what shares memory stay exactly the same.
    """
    strided, source = line.strided, base or line
    if strided is None or source.data.sizes is None:
        return line.line
    if base is not None and (len(base.data.sizes or ()) != 1 or base.strided is not None):
        return line.line
    order = sorted(range(len(strided.shape)), key=lambda at: -strided.stride[at])
    inside = [strided.shape[at] for at in order]  # the sizes as they lie in memory
    total, whole = math.prod(inside), math.prod(source.data.sizes)
    if not total or any(strided.stride[at] != math.prod(inside[place + 1 :]) for place, at in enumerate(order)):
        return line.line
    back = [order.index(at) for at in range(len(order))]
    turned = "" if back == sorted(back) else ".t()" if len(back) == 2 else f".permute({', '.join(map(str, back))})"
    offset = f", {strided.offset}" if strided.offset else ""
    written = f".as_strided({strided.shape!r}, {strided.stride!r}{offset})"
    if base is not None:
        end = "" if strided.offset + total == whole else strided.offset + total
        part = f"[{strided.offset or ''}:{end}]" if total != whole else ""
        return line.line.replace(written, f"{part}.view({', '.join(map(str, inside))}){turned}")
    if line.base or total != whole or line.data.kind == "tensor":
        return line.line
    return replace(line, data=replace(line.data, sizes=tuple(inside))).line.replace(written, turned)
