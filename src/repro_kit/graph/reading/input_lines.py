"""The lines of `calls()` for recorded tensors, alone or with what the tensors are to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from repro_kit.graph.reading.graph_record import InputRecord, ViewRecord
from repro_kit.graph.values import span

_FLOATS = ("torch.float64", "torch.float32", "torch.float16", "torch.bfloat16")
_INFERENCE = "torch.inference_mode()"
#: The text of the mode in which a view was made, by torch's name of it.
MODES = {"no_grad_mode": "torch.no_grad()", "inference_mode": _INFERENCE}


def tensor_expression(record: InputRecord, base: str | None = None, *, buffer: bool = False) -> str:
    """One tensor as an expression in the input grammar of the program format; `buffer`: of a module to export."""
    strided = base is not None or record.span is not None
    text = base if base is not None else source_expression(record, flat=record.span is not None)
    if strided:
        text += _strided(record, record.offset)
    text = _with_bits(text, record)
    if record.parameter and record.requires_grad:
        return f"torch.nn.Parameter({text})"
    if buffer:
        return f"torch.nn.Buffer({text})"
    return text + (".requires_grad_()" if record.requires_grad else "")


def _with_bits(text: str, record: InputRecord) -> str:
    """The tensor of `text` conjugated or negated as the record says, without that its values are computed."""
    if "conj" in record.bits:
        text = f"{text}.conj()"
    return f"torch._neg_view({text})" if "neg" in record.bits else text


def _strided(record: InputRecord, offset: int) -> str:
    """``.as_strided(…)`` with the shape and the strides of the record; `offset` in elements."""
    return f".as_strided({record.shape!r}, {record.stride!r}{f', {offset}' if offset else ''})"


def source_expression(record: InputRecord, *, flat: bool) -> str:
    """The stored or generated values of a tensor; `flat`: of its span in the storage."""
    if record.file is not None:
        return f'load("{record.file}")'
    shape = (record.span or 0,) if flat else record.shape
    extra = "" if record.dtype == "torch.float32" else f", dtype={record.dtype}"
    extra += "" if record.device == "cpu" else f", device={record.device!r}"
    if "zero" in record.bits:
        return f"torch._efficientzerotensor({shape!r}{extra})"
    if record.dtype in _FLOATS or "complex" in record.dtype:
        return f"torch.randn({shape!r}{extra})"
    if record.low is not None and record.high is not None and record.dtype != "torch.bool":
        return f"torch.randint({record.low}, {record.high + 1}, {shape!r}{extra})"
    return f"torch.ones({shape!r}{extra})"


def has_relations(record: InputRecord) -> bool:
    """Whether the tensor is a view, the result of an operator that autograd knows, or made in inference mode."""
    return record.view is not None or record.inference or (record.requires_grad and not record.leaf)


def related_lines(named: Sequence[tuple[str, InputRecord]], fresh: Callable[[str], str]) -> Iterator[str]:
    """The lines that make the tensors of one call as what they were.

    A view is made from its base, in the mode in which it was made. A tensor that is no leaf is a copy of one. `fresh`
    gives a new name that resembles its argument.
    """
    roots: dict[str, _Root] = {}
    for name, record in named:
        if record.view is None:
            roots[record.own or name] = _Root(name, record, record.storage, record.offset)
    for name, record in named:
        if record.view is not None and record.view.base.own not in roots:
            offset = record.offset - record.view.offset
            roots[record.view.base.own] = _Root(fresh(f"{name}_base"), record.view.base, record.storage, offset, False)
    owners = {own: _owner(root, list(roots.values())) for own, root in roots.items()}
    for own, root in sorted(roots.items(), key=lambda item: owners[item[0]] is not item[1]):
        yield from root.own_lines(fresh) if owners[own] is root else [root.shared_line(owners[own])]
    for name, record in named:
        if record.view is not None:
            yield f"{name} = {_view_expression(record, record.view, roots[record.view.base.own].name)}"


@dataclass(frozen=True)
class _Root:
    """A tensor that is no view. `offset`: in its storage, from the same element for all tensors of the storage."""

    name: str
    record: InputRecord
    storage: str
    offset: int
    argument: bool = True  # the tensor is passed to the graph

    @property
    def end(self) -> int:
        """The element after the last one, as `offset` counts."""
        return self.offset + span(self.record.shape, self.record.stride)

    def own_lines(self, fresh: Callable[[str], str]) -> Iterator[str]:
        """The lines that make the tensor from its own values."""
        record = self.record
        if record.file is not None and not self.argument:  # the line says the shape of values that no argument has
            record = replace(record, span=record.span or span(record.shape, record.stride))
        leaf = record.leaf or not record.requires_grad
        if leaf and not record.inference and (record.span is None or record.parameter or record.bits):
            yield f"{self.name} = {tensor_expression(record)}"
            return
        start = fresh(f"{self.name}_start")
        yield f"{start} = {tensor_expression(replace(record, requires_grad=not leaf))}"
        copy = f"{_INFERENCE}(torch.clone)({start})" if record.inference else f"{start}.clone()"
        yield f"{self.name} = {copy}{'.requires_grad_()' if leaf and record.requires_grad else ''}"

    def shared_line(self, owner: _Root) -> str:
        """The line that makes the tensor from `owner`, which has the same storage but is another tensor."""
        record = self.record
        made = f"{owner.name}.detach(){_strided(record, self.offset - owner.offset)}.detach()"
        if record.parameter:
            made = f"torch.nn.Parameter({made}{'' if record.requires_grad else ', requires_grad=False'})"
        elif record.requires_grad:
            made += ".requires_grad_()"
        return f"{self.name} = {made}"


def _owner(root: _Root, roots: Sequence[_Root]) -> _Root:
    """The largest root of the same storage where it has all elements of `root`; else `root` itself."""
    sharing = [other for other in roots if other.storage == root.storage]
    owner = min(sharing, key=lambda other: (other.offset, -other.end))
    return owner if owner.end >= root.end else root


def _view_expression(record: InputRecord, view: ViewRecord, base: str) -> str:
    if view.made == "multi_output_node":
        single = replace(record, shape=(1, *record.shape), stride=(1, *record.stride))
        text = f"{base}{_strided(single, view.offset)}.unbind(0)[0]"
    elif view.made in MODES:
        arguments = _strided(record, view.offset).removeprefix(".as_strided")
        text = f"{MODES[view.made]}({base}.as_strided){arguments}"
    else:
        text = base + _strided(record, view.offset)
    text = _with_bits(text, replace(record, bits=tuple({*record.bits} ^ {*view.base.bits})))
    return text + (".requires_grad_()" if record.requires_grad and record.leaf else "")
