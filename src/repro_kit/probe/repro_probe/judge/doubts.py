"""Find out what makes the results of a program less than defined, so that a difference from eager would show no bug.

A program may draw random numbers, read memory that nothing has written to, write different values to one place, read
elements that the same operator writes to (``x[1:].add_(x[:-1])``, or in place where two elements share memory), or
change by hooks what is saved for its backward, which the compiler chooses. More runs in eager show that: with other
values in uninitialised memory, with such writes in the opposite order, with copies of what is read, and without the
hooks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from repro_probe.judge import compare_outputs
from repro_probe.judge.compare_outputs import Tolerance
from repro_probe.protocol.failure_data import (
    BAD_OFFSETS,
    OF_GRADIENT,
    OVERLAP,
    RANDOM_NUMBERS,
    SAVED_VALUES,
    UNINITIALISED,
    WRITE_ORDER,
)
from repro_probe.run import outputs
from repro_probe.run.outputs import Outcome, RunnableCalls

_EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
_GROWS = {"resize_", "resize_as_"}
_WRITES = {"index_put", "_unsafe_index_put", "_index_put_impl", "index_copy", "put", "scatter"}
_STATISTICS = {
    "native_batch_norm",
    "cudnn_batch_norm",
    "miopen_batch_norm",
}  # write to two arguments; no schema says so
_JAGGED = {"_nested_view_from_jagged", "_nested_view_from_jagged_copy"}
_MOST_PLACES = 10**6  # elements of a tensor whose places are compared
_FILLS = (1, 2)  # what uninitialised memory is given in two runs


def doubts(program: RunnableCalls, eager: Outcome, where: Collection[str] = ()) -> list[str]:
    """Return why the results of `program` are not defined, in the words of the protocol; empty where they are.

    `eager` is the outcome in eager. A run that fails shows nothing. `where`: the results in question; empty: all.
    """
    found = [RANDOM_NUMBERS] if eager.random else []
    watch = _Watch(_FILLS[0])
    first = _run(program, watch)
    if first is None:
        return found
    if watch.bad_offsets:
        found.append(BAD_OFFSETS)
    if watch.wrote_twice:
        found.append(WRITE_ORDER)
    for seen, reason, other in (
        (watch.filled, UNINITIALISED, _Watch(_FILLS[1])),
        (watch.wrote, WRITE_ORDER, _Watch(_FILLS[0], backwards=True)),
        (watch.overlapped, OVERLAP, _Watch(_FILLS[0], apart=True)),
    ):
        again = _run(program, other) if seen else None
        places = compare_outputs.places_that_differ(first, again, Tolerance(program.recipe)) if again else []
        if set(places) & set(where or places):
            found.append(reason)
    gradients = {place for place in where or eager.places() if place.startswith(OF_GRADIENT)}
    unhooked = _unhooked(program) if gradients else None
    if unhooked and gradients.intersection(
        compare_outputs.places_that_differ(eager, unhooked, Tolerance(program.recipe))
    ):
        found.append(SAVED_VALUES)
    return found


def _unhooked(program: RunnableCalls) -> Outcome | None:
    """Run the program with hooks that save what they are given: of nested hooks only the innermost are called."""

    def graph(*arguments: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(_same, _same):
            return program.graph(*arguments)

    try:
        return outputs.run(program, graph)
    except Exception:  # a transform of torch.func allows no hooks
        return None


def _same(value: Any) -> Any:
    return value


def _run(program: RunnableCalls, watch: _Watch) -> Outcome | None:
    try:
        with watch:
            return outputs.run(program, program.graph)
    except Exception:  # an index or a size that depends on uninitialised memory, or an operator that refuses the mode
        return None


class _Watch(TorchDispatchMode):
    """Gives uninitialised memory the value `fill`; with `backwards`, the last of several writes to a place goes first.

    With `apart`, an operator reads copies of the other views of what it writes to, and works on a copy of a tensor of
    which several elements are one place in memory. `filled`, `wrote`, `overlapped`, `wrote_twice` and `bad_offsets` say
    whether there was such memory, such a write, such a view, an operator that writes to one tensor as two of its
    arguments, or a jagged tensor with offsets that do not rise from 0 to the number of its rows.
    """

    def __init__(self, fill: int, *, backwards: bool = False, apart: bool = False) -> None:
        super().__init__()
        self.fill, self.backwards, self.apart = fill, backwards, apart
        self.filled = self.wrote = self.overlapped = self.wrote_twice = self.bad_offsets = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = function._schema.name.partition("::")[2]
        if name in _JAGGED:
            self.bad_offsets = self.bad_offsets or not _are_offsets(args[1], args[0].shape[0])
        if name.rstrip("_") in _WRITES:
            given = _backwards(name.rstrip("_"), args, kwargs)
            self.wrote = self.wrote or given is not None
            args = given if given is not None and self.backwards else args
        self.wrote_twice = self.wrote_twice or _writes_twice(name, function._schema.arguments, args)
        folded = None
        if function._schema.is_mutable:
            folded = _folded(function._schema.arguments, args)
            given = _from_copies(function._schema.arguments, args, kwargs)
            self.overlapped = self.overlapped or given is not None or folded is not None
            args = given if given is not None and self.apart else args
        if folded is not None and self.apart:
            apart = folded.clone(memory_format=torch.contiguous_format)
            function(apart, *args[1:], **kwargs)
            return folded.copy_(apart)
        held = _held(args[0]) if name in _GROWS else 0
        result = function(*args, **kwargs)
        new = _unwritten(result, held) if name in _EMPTY or name in _GROWS else None
        if new is not None:
            self.filled = True
            new.fill_(self.fill)
        return result


def _held(tensor: torch.Tensor) -> int:
    """Return the number of elements that `tensor` has memory for."""
    return tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()


def _unwritten(result: Any, held: int) -> torch.Tensor | None:
    """Return the elements of a new or a grown tensor beyond those that its memory `held` before; None without any."""
    if not isinstance(result, torch.Tensor) or result.layout != torch.strided or result.numel() <= held:
        return None
    return result.as_strided((result.numel() - held,), (1,), result.storage_offset() + held) if held else result


def _backwards(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return the arguments of a write with its elements in the opposite order; None where no two may differ."""
    if kwargs.keys() - {"out"} or len(args) < 3 + (name in ("index_copy", "scatter")):
        return None
    if name in ("index_copy", "scatter"):
        given, dim, index, source = args[:4]
        if not isinstance(source, torch.Tensor) or not index.dim():
            return None
        source = source[tuple(map(slice, index.shape))] if name == "scatter" else source
        return given, dim, index.flip(dim if name == "scatter" else 0), source.flip(dim), *args[4:]
    given, indices, values = args[:3]
    if name == "put":
        twice = values.numel() > 1 and not any(args[3:4])
        return (given, indices.flatten().flip(0), values.flatten().flip(0), *args[3:]) if twice else None
    used = [index for index in indices if index is not None]
    if any(index.dtype == torch.bool for index in used) or values.numel() == 1 or any(args[3:4]):
        return None
    places = iter(torch.broadcast_tensors(*used))
    dims = list(range(max(index.dim() for index in used)))
    turned = [None if index is None else next(places).flip(dims) for index in indices]
    at = [number for number, index in enumerate(indices) if index is not None]
    first = at[0] if at[-1] - at[0] < len(at) else 0  # indices with a dimension between them come first in the result
    whole = values.broadcast_to(torch.ops.aten.index(given, indices).shape)
    return given, turned, whole.flip([first + dim for dim in dims]), *args[3:]


def _from_copies(declared: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return `args` with copies of the tensors that share memory with one that is written to; None if none does.

    The very tensor that is written to may be read, element by element. `declared`: the arguments of the schema.
    """
    given = [*zip(declared, args), *((each, kwargs[each.name]) for each in declared if each.name in kwargs)]
    written = [value for each, value in given if _writes(each) and isinstance(value, torch.Tensor)]
    if any(not _has_memory(tensor) for tensor in written):
        return None
    homes = {tensor.untyped_storage().data_ptr(): _view(tensor) for tensor in written}
    copied = [
        value.clone()
        if not _writes(each)
        and isinstance(value, torch.Tensor)
        and _has_memory(value)
        and homes.get(value.untyped_storage().data_ptr(), _view(value)) != _view(value)
        else value
        for each, value in zip(declared, args)
    ]
    return tuple(copied) if any(new is not old for new, old in zip(copied, args)) else None


def _writes_twice(name: str, declared: Sequence[Any], args: Sequence[Any]) -> bool:
    """Whether an operator writes to one place in memory as two of its arguments, as statistics of a batch norm."""
    written = [value for each, value in zip(declared, args) if _writes(each)]
    if name in _STATISTICS and args[5]:
        written += args[3:5]
    places = [
        each.data_ptr() for each in written if isinstance(each, torch.Tensor) and each.numel() and _has_memory(each)
    ]
    return len(set(places)) < len(places)


def _folded(declared: Sequence[Any], args: Sequence[Any]) -> torch.Tensor | None:
    """Return what an operator writes to in place, where two elements of it are one place in memory; else None.

    torch refuses such a write only where it knows this at once (`has_internal_overlap`, ATen/MemoryOverlap.cpp).
    """
    tensor = args[0] if args and _writes(declared[0]) else None
    if not isinstance(tensor, torch.Tensor) or not _has_memory(tensor) or not 1 < tensor.numel() <= _MOST_PLACES:
        return None
    reach = 0  # of the dimensions with smaller strides, in elements
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride <= reach:
            break
        reach += stride * (size - 1)
    else:
        return None
    places = torch.zeros(tensor.shape, dtype=torch.int64)
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())):
        places += (torch.arange(size) * stride).view([-1 if at == dim else 1 for at in range(tensor.dim())])
    return tensor if len(places.unique()) < tensor.numel() else None


def _writes(declared: Any) -> bool:
    return declared.alias_info is not None and bool(declared.alias_info.is_write)


def _has_memory(tensor: torch.Tensor) -> bool:
    return type(tensor) is torch.Tensor and tensor.layout == torch.strided and tensor.device.type != "meta"


def _view(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def _are_offsets(offsets: Any, rows: int) -> bool:
    numbers = offsets.tolist()
    return numbers[:1] == [0] and numbers[-1:] == [rows] and all(_rises(numbers))


def _rises(numbers: Sequence[int]) -> Iterator[bool]:
    return (before <= after for before, after in zip(numbers, numbers[1:]))


class DrawnInOrder:
    """A program (`RunnableCalls`) that in eager draws the numbers of each tensor in the order of its indices.

    Eager draws the numbers of a tensor in the order of its memory. Compiled code may keep the same tensor in
    another order, and then puts the same numbers elsewhere (with ``fallback_random``, torch/_inductor/config.py).
    """

    def __init__(self, program: RunnableCalls) -> None:
        self._program = program

    def __getattr__(self, name: str) -> Any:
        if name == "_program":  # of a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._program, name)

    def graph(self, *arguments: Any) -> Any:
        """Run the program in eager."""
        with _InOrder():
            return self._program.graph(*arguments)


class _InOrder(TorchDispatchMode):
    """Gives contiguous tensors to the operators that draw random numbers."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **kwargs)
        inputs = [arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args]
        result = function(*inputs, **kwargs)
        if not (function._schema.is_mutable and isinstance(args[0], torch.Tensor)):
            return result
        return args[0] if inputs[0] is args[0] else args[0].copy_(inputs[0])


class ClonedDropouts(TorchFunctionMode):
    """Lets a dropout that drops nothing return a clone of its input, as compiled code does, and not the input itself.

    torch/_decomp decomposes it so; eager's input is then no memory that the results of compiled code must share.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        return result.clone() if name.endswith("dropout") and args and result is args[0] else result
