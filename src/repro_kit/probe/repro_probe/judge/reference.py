"""Compute a reference for eager's result, in double precision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from repro_probe.run import outputs
from repro_probe.run.outputs import Outcome, RunnableCalls

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


class NoReference(Exception):
    """The program cannot be run in double precision."""


class _Double(TorchDispatchMode):
    """Runs every operator in double precision. Random numbers are drawn in the dtype that the program asks for."""

    def __init__(self, default_dtype: torch.dtype) -> None:
        super().__init__()
        self.default_dtype = default_dtype

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.ops.aten.view.dtype:
            raise NoReference("the program looks at the bits of a tensor")
        if torch.Tag.nondeterministic_seeded in function.tags and not _writes(function):
            with _default_dtype(self.default_dtype):
                return tree_map(widen, function(*args, **kwargs))
        return function(*tree_map(widen, args), **tree_map(widen, kwargs))


def _writes(function: Any) -> bool:
    return any(argument.alias_info is not None for argument in function._schema.arguments)


def widen(value: Any) -> Any:
    """Return a tensor or a dtype in double precision, and any other value as it is."""
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in _WIDER:
        return value.to(_WIDER[value.dtype])
    return value


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _loading_plainly() -> Iterator[None]:
    """Widen the results of torch.load, which builds tensors in a way that a dispatch mode cannot follow."""
    original = torch.load

    def load(*arguments: Any, **named: Any) -> Any:
        with _disable_current_modes():
            return tree_map(widen, original(*arguments, **named))

    torch.load = load
    try:
        yield
    finally:
        torch.load = original


def in_double(program: RunnableCalls) -> Outcome | None:
    """Return the Outcome of `program` in eager, in double precision; None when the program cannot be run so."""
    try:
        default_dtype = torch.get_default_dtype()
        with program.widened(widen), _loading_plainly(), _Double(default_dtype), _default_dtype(torch.float64):
            return outputs.run(program, program.graph, autocast=False)
    except Exception:  # an operator without double precision, or an in-place write to a widened tensor
        return None
