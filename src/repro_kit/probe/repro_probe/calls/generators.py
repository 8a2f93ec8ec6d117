"""The states of generators of random numbers that a script owns: Python's, NumPy's and torch's."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

#: The functions that read the state of a generator, and put it back.
StateAccess = tuple[Callable[[], Any], Callable[[Any], Any]]


def generator_access(torch: Any, value: Any) -> StateAccess | None:
    """Return how the state of the generator `value` is read and put back; None for any other object."""
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return value.getstate, value.setstate
    if isinstance(value, torch.Generator):
        return value.get_state, value.set_state
    numpy_random = getattr(sys.modules.get("numpy"), "random", None)
    if numpy_random is None:
        return None
    if isinstance(value, numpy_random.RandomState):
        return value.get_state, value.set_state
    bits = value.bit_generator if isinstance(value, numpy_random.Generator) else value
    if isinstance(bits, numpy_random.BitGenerator):
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    return None
