"""Copy the arguments of a call so that a copy is laid out as its original, and copies share what the originals share.

A clone of a slice or of an expanded tensor has other strides, and clones of two views of one storage share nothing. A
call with such clones is another call: other guards, other strides of the results, and writes that nobody else sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from repro_probe.record.values import pointer_of

_ALIGNMENT = 64  # bytes: a copy begins as far from such a border as its original, which compiled code may rely on
_LARGEST = 1 << 28  # bytes between the elements of small views: more is not copied with them


class CopiedArguments:
    """The leaves of a call's arguments, of which each call gets copies.

    `kept` are tensors that are passed as they are: the state of the function, which is put back after each call.
    """

    def __init__(self, leaves: Sequence[Any], kept: Mapping[int, Any]) -> None:
        #: Applied to the values of each copy: a run in double precision widens them.
        self.widen: Callable[[Any], Any] = as_it_is
        self._originals = list(leaves)
        self._kept = kept
        groups: dict[Any, list[torch.Tensor]] = {}
        for leaf in {id(leaf): leaf for leaf in leaves if _is_strided(leaf) and id(leaf) not in kept}.values():
            groups.setdefault((pointer_of(leaf), leaf.dtype), []).append(leaf)
        self._memories = [_Memory(group) for group in groups.values() if _is_compact(group)]
        seen = {id(leaf) for memory in self._memories for leaf in memory.tensors}
        self._others = {
            id(leaf): cloned(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor) and id(leaf) not in seen
        }

    def __call__(self) -> list[Any]:
        """Return the leaves anew, with the values that they had at first. The same tensor twice stays one tensor."""
        with _disable_current_modes():
            copies = {at: self.widen(cloned(leaf)) for at, leaf in self._others.items() if at not in self._kept}
            for memory in self._memories:
                copies.update(memory.copied(self.widen))
        copies.update(self._kept)
        return [copies.get(id(leaf), leaf) for leaf in self._originals]


class _Memory:
    """The part of one storage that some tensors of one dtype use, with the values that it has now."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.tensors = tensors
        #: What autograd calls the base of each view: compiled code takes a base and its view otherwise than two views.
        bases = {id(tensor): tensor._base for tensor in tensors if _has_base(tensor)}
        self._bases = bases if _is_compact([*tensors, *bases.values()]) else {}
        self._start, end = _span([*tensors, *self._bases.values()])
        self._values = tensors[0].detach().as_strided((end - self._start,), (1,), self._start).clone()
        # Autograd forbids most writes to views of leaves that need a gradient, so these are copied apart.
        self._needs_grad = any(tensor.requires_grad for tensor in tensors)

    def copied(self, widen: Callable[[Any], Any]) -> dict[int, torch.Tensor]:
        """Return a copy of each tensor by the id of its original."""
        made: dict[int, torch.Tensor] = {}
        memory = widen(self._values.clone())
        bases = {} if self._needs_grad else {id(base): base for base in self._bases.values()}
        for tensor in (*bases.values(), *self.tensors):
            if id(tensor) in made:
                continue
            base = made.get(id(self._bases.get(id(tensor))))
            place = tensor.storage_offset() - self._start
            if base is not None:
                copy = base.as_strided(tensor.shape, tensor.stride(), place)
            else:
                own = widen(self._values.clone()) if self._needs_grad else memory
                copy = torch.empty(0, dtype=own.dtype, device=own.device)
                copy.set_(own.untyped_storage(), place, tensor.shape, tensor.stride())
            made[id(tensor)] = _like(tensor, copy)
        return {id(tensor): made[id(tensor)] for tensor in self.tensors}


def _has_base(tensor: torch.Tensor) -> bool:
    base = tensor._base
    return (
        base is not None and _is_strided(base) and base.dtype == tensor.dtype and pointer_of(base) == pointer_of(tensor)
    )


def _like(tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
    """Return `copy` with the class, the need of a gradient and the attributes of `tensor`, such as dynamic sizes."""
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copy, tensor.requires_grad)
    copy.__dict__.update(tensor.__dict__)
    return copy.requires_grad_(tensor.requires_grad)


def _is_strided(value: Any) -> bool:
    """Whether `value` is a plain tensor whose elements lie in memory: others are cloned."""
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and not torch._C._functorch.is_functorch_wrapped_tensor(value)
        and value.layout == torch.strided
        and value.device.type in ("cpu", "cuda", "xpu")
        and value.numel() > 0
        and not (value.is_quantized or value.is_conj() or value.is_neg() or value.is_inference())
        and pointer_of(value) != 0
    )


def _is_compact(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the memory between the elements of some tensors is small enough to be copied with them."""
    start, end = _span(tensors)
    size = tensors[0].element_size()
    return (end - start - sum(tensor.numel() for tensor in tensors)) * size <= _LARGEST


def _span(tensors: Sequence[torch.Tensor]) -> tuple[int, int]:
    """Return the part of their storage that some tensors use, counted in elements, from a border of alignment on."""
    step = max(1, _ALIGNMENT // tensors[0].element_size())
    ends = [
        tensor.storage_offset() + 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
        for tensor in tensors
    ]
    return min(tensor.storage_offset() for tensor in tensors) // step * step, max(ends)


def as_it_is(value: Any) -> Any:
    """Return `value`."""
    return value


def cloned(value: Any) -> Any:
    """Return a clone of a tensor, as a leaf; any other value as it is."""
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value
