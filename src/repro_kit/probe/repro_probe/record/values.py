"""Record tensors as metadata and files, so that a program can build its inputs again.

A contiguous tensor that shares its storage with no other tensor is stored as it is. For any other tensor the flat span
of its storage is stored, to be viewed with ``as_strided`` (docs/explanation/program-format.md).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from repro_probe.protocol.graph_data import RelationData, TensorData


def pointer_of(tensor: torch.Tensor) -> int:
    """Return the address of the storage of a strided tensor; 0 where there is none: of a ZeroTensor, or a wrapper."""
    try:
        return 0 if tensor._is_zerotensor() else tensor.untyped_storage().data_ptr()
    except RuntimeError:  # of a subclass whose values lie in tensors that it holds
        return 0


_LARGEST_BASE = 16 << 20  # bytes


class ValueStore:
    """Saves each tensor once to `directory`, up to `limit` bytes in all. Further tensors are not saved."""

    def __init__(self, directory: str, limit: int, prefix: str = "", other: ValueStore | None = None) -> None:
        """`other` is a store in the same directory, whose tensors need not be saved again."""
        self.directory = directory
        self.left = limit
        self.prefix = prefix
        self.count = 0
        self._known: dict[tuple[Any, ...], tuple[Any, str]] = other._known if other is not None else {}

    def save(self, tensor: torch.Tensor, flat: bool) -> str | None:
        """Return the name of the file with the values of `tensor` (or its flat span), or None beyond the limit."""
        key = (
            tensor.data_ptr(),
            version_of(tensor),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            str(tensor.dtype),
            flat,
        )
        alive, kept = self._known.get(key, (None, None))
        if alive is not None and alive() is not None:
            return kept
        if tensor.numel() * tensor.element_size() > self.left:
            return None
        plain = _without_bits(tensor).clone(memory_format=torch.contiguous_format)
        self.left -= plain.numel() * plain.element_size()
        name = f"{self.prefix}{self.count}.pt"
        self.count += 1
        os.makedirs(self.directory, exist_ok=True)
        torch.save(plain, os.path.join(self.directory, name))
        self._known[key] = (weakref.ref(tensor), name)
        return name


def describe_tensors(named: Sequence[tuple[str, torch.Tensor]], store: ValueStore) -> dict[str, TensorData]:
    """Return records of the tensors of one call by name, with their shared storages (`TensorData`).

    Raises TypeError for tensors without a plain strided storage.
    """
    groups: dict[Any, list[tuple[str, torch.Tensor]]] = {}
    bases: dict[int, TensorData] = {}
    for name, tensor in named:
        _refuse_unusual(name, tensor)
        pointer = pointer_of(tensor)
        groups.setdefault(pointer if pointer else "empty " + name, []).append((name, tensor))
    records: dict[str, TensorData] = {}
    for members in groups.values():
        described = _describe_group(members, store)
        for name, tensor in members:
            records[name] = {**described[name], **relations_of(tensor, store, bases)}
    return {name: records[name] for name, _ in named}


def relations_of(tensor: torch.Tensor, store: ValueStore, bases: dict[int, TensorData]) -> RelationData:
    """Describe what the tensor is a view of, and how it was made. `bases`: the bases that are described already.

    The values of a base are only stored up to `_LARGEST_BASE` bytes.
    """
    relations: RelationData = {"own": str(id(tensor)), "inference": tensor.is_inference()}
    base = tensor._base
    if base is None or tensor._is_zerotensor() or base.layout != torch.strided or base.dtype != tensor.dtype:
        return relations
    if id(base) not in bases:
        values = store if base.numel() * base.element_size() <= _LARGEST_BASE else None
        (record,) = _describe_group([("base", base)], values).values()
        bases[id(base)] = {**record, "own": str(id(base)), "inference": base.is_inference()}
    offset = tensor.storage_offset() - base.storage_offset()
    relations["view"] = {"made": _made(tensor), "offset": offset, "base": bases[id(base)]}
    return relations


def _made(view: torch.Tensor) -> str:
    """Return how autograd says that a view was made (torch/csrc/autograd/variable.h, `CreationMeta`)."""
    creation = getattr(torch._C._autograd, "_get_creation_meta", None)
    if creation is None or view.is_inference():
        return "default"
    return str(creation(view)).rpartition(".")[2].lower()


def version_of(tensor: torch.Tensor) -> int:
    """Return the number of changes of the tensor; 0 for one made in inference mode, which has no such number."""
    return 0 if tensor.is_inference() else tensor._version


def _refuse_unusual(name: str, tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(f"input {name} has layout {tensor.layout}")
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not isinstance(tensor, torch.nn.Parameter):
        raise TypeError(f"input {name} is a tensor subclass, {type(tensor).__name__}")


def _describe_group(members: list[tuple[str, torch.Tensor]], store: ValueStore | None) -> dict[str, TensorData]:
    """Describe the tensors of one storage; without `store` no values are saved."""
    alone = len(members) == 1
    first_name, first = members[0]
    if first._is_zerotensor():
        return {first_name: _record(first, first_name, 0, None, None)}
    if alone and first.is_contiguous():
        return {
            first_name: _record(first, first_name, 0, None, None if store is None else store.save(first, flat=False))
        }
    if any(tensor.dtype != first.dtype for _, tensor in members):
        raise TypeError("inputs {} share a storage under several dtypes".format(", ".join(name for name, _ in members)))
    start = min(tensor.storage_offset() for _, tensor in members)
    end = max(tensor.storage_offset() + span_of(tensor) for _, tensor in members)
    flat = torch.empty(0, dtype=first.dtype, device=first.device)
    flat.set_(first.untyped_storage(), start, (end - start,), (1,))
    file = None if store is None else store.save(flat, flat=True)
    return {
        name: _record(tensor, first_name, tensor.storage_offset() - start, end - start, file)
        for name, tensor in members
    }


def _bits_of(tensor: torch.Tensor) -> list[str]:
    """Return which of torch's bits for lazy values the tensor has: "zero" has no storage at all."""
    states = {"conj": tensor.is_conj(), "neg": tensor.is_neg(), "zero": tensor._is_zerotensor()}
    return [name for name, is_set in states.items() if is_set]


def _without_bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as it is stored: not yet conjugated or negated."""
    stored = tensor.detach()
    stored = stored.conj() if stored.is_conj() else stored
    return torch._neg_view(stored) if stored.is_neg() else stored


def span_of(tensor: torch.Tensor) -> int:
    """Return the number of storage elements from the first to the last element of `tensor`."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def _record(tensor: torch.Tensor, storage: str, offset: int, span: int | None, file: str | None) -> TensorData:
    record: TensorData = {
        "shape": [int(size) for size in tensor.shape],
        "stride": [int(step) for step in tensor.stride()],
        "offset": int(offset),
        "dtype": str(tensor.dtype),
        "device": str(tensor.device.type),
        "requires_grad": bool(tensor.requires_grad),
        "leaf": bool(tensor.is_leaf),
        "parameter": isinstance(tensor, torch.nn.Parameter),
        "storage": storage,
        "span": span,
        "file": file,
        "bits": _bits_of(tensor),
        "low": None,
        "high": None,
    }
    if tensor.numel() and not tensor.is_floating_point() and not tensor.is_complex():
        plain = tensor.detach().to(torch.int64)
        record["low"], record["high"] = int(plain.min()), int(plain.max())
    return record
