"""How long a reduction may take if the user gives no deadline, in seconds."""

from __future__ import annotations

from repro_kit.model.failure.failure import Kind
from repro_kit.model.failure.signature import Signature

_PROGRAM = 1800.0
_OF_SLOW = {Kind.TIMEOUT: 150.0, Kind.COMPILE_GROWTH: 60.0}  # of a compile that does not end
_QUERIES = 8
_SCRIPT = 300.0
_SCRIPT_OF_HANG = 600.0  # each script that is accepted takes the limit of a hang


def deadline_of_program(signature: Signature, seconds: float) -> float:
    """A hang gets less time: each program that still hangs costs half a minute. Five of them are enough to replace
    stored values, and to drop most of what the recipe has.

    Ranks that wait for each other are noticed sooner, and get the usual time. Compile time that grows too fast gets
    less time as well, since a query makes several compiles: time for some queries of `seconds`.
    """
    kind = signature.kind
    if kind not in _OF_SLOW:
        return _PROGRAM
    return max(_OF_SLOW[kind], _QUERIES * seconds if kind is Kind.COMPILE_GROWTH else 0.0)


def deadline_of_script(kind: Kind | None) -> float:
    """The time for the reduction of a script that fails by `kind`."""
    return _SCRIPT_OF_HANG if kind and kind.policy.hangs else _SCRIPT
