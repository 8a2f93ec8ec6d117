"""Run eager with its random numbers in another order."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repro_probe.run.outputs import RunnableCalls


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
