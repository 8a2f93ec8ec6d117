"""The arguments of recorded calls in the order of the placeholders of one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repro_kit.program.reading.graph_record import InputRecord

Inputs = Sequence[InputRecord]


def arguments_for(placeholders: Inputs, own: Inputs, call: Inputs) -> tuple[InputRecord, ...] | None:
    """The arguments of `call`, a call of a graph with the placeholders `own`, as arguments for `placeholders`.

    Both graphs are of one frame, so an argument is known by its source. A number that the graph of the call holds as a
    constant, and that became symbolic later, is unknown: it gets another value than that of `placeholders`, since that
    it changed is what made it symbolic. None if the tensors of the call do not fit.
    """
    tensors = _tensors(placeholders, own, call)
    if tensors is None:
        return None
    numbers = {key(mine): value for mine, value in zip(own, call, strict=False) if not _is_tensor(mine)}
    arguments = [
        tensors.pop(0) if _is_tensor(placeholder) else _number(placeholder, numbers.get(key(placeholder)))
        for placeholder in placeholders
    ]
    sizes = {
        symbol: size
        for placeholder, record in zip(placeholders, arguments, strict=True)
        if _is_tensor(placeholder)
        for symbol, size in zip(placeholder.symbols, record.shape, strict=False)
    }
    return tuple(
        replace(record, value=sizes[record.symbol]) if record.kind != "tensor" and record.symbol in sizes else record
        for record in arguments
    )


def key(record: InputRecord) -> str:
    """The source of an argument, by which it is known in every graph of its frame."""
    return record.source or record.name


def _is_tensor(placeholder: InputRecord) -> bool:
    return placeholder.kind == "tensor" and not placeholder.as_tensor


def _tensors(placeholders: Inputs, own: Inputs, call: Inputs) -> list[InputRecord] | None:
    """The tensors of the call, by source if both graphs name the same, else by position; None if they do not fit."""
    wanted = [placeholder for placeholder in placeholders if _is_tensor(placeholder)]
    given = {key(mine): value for mine, value in zip(own, call, strict=False) if _is_tensor(mine)}
    if len(given) != len(wanted):
        return None
    by_source = [given[key(placeholder)] for placeholder in wanted if key(placeholder) in given]
    tensors = by_source if len(by_source) == len(wanted) else list(given.values())
    fits = [len(record.shape) for record in tensors] == [len(placeholder.shape) for placeholder in wanted]
    return tensors if fits else None


def _number(placeholder: InputRecord, recorded: InputRecord | None) -> InputRecord:
    """The number of a call; another one than the placeholder's if the call's graph has it as a constant."""
    if recorded is not None and placeholder.as_tensor:
        return replace(placeholder, value=recorded.value if recorded.scalar is None else recorded.scalar)
    if recorded is not None:
        return replace(placeholder, value=recorded.value)
    changes = placeholder.as_tensor or placeholder.symbolic
    if changes and isinstance(placeholder.value, int | float) and not isinstance(placeholder.value, bool):
        return replace(placeholder, value=placeholder.value + 1)
    return placeholder
