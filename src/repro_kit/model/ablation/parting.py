"""Compare the witnessed calls of two runs of a script, and find the first call after which the runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from repro_kit.model.measure.call_state import alike, differing_values, first_difference


@dataclass(frozen=True)
class DifferingCall:
    """The first call after which two runs differ: in what it returned, or only in the Python state that it left."""

    what: Literal["result", "state"]
    call: int  # counted from 1
    function: str
    name: str = ""  # variable whose state differs
    eager: str = ""  # what it holds then in eager, and when compiled, in words
    compiled: str = ""

    def __str__(self) -> str:
        if self.what == "result":
            return f"call {self.call} of compiled functions ({self.function}) returns another result than in eager"
        return (
            f"call {self.call} of compiled functions ({self.function}) returns what it returns in eager,"
            f" but leaves another state: {self.name} ({self.eager} in eager, {self.compiled} when compiled)"
        )


def first_differing_call(eager: Sequence[Any], compiled: Sequence[Any]) -> DifferingCall | None:
    """The first call whose result or state differs; None when the runs agree or make different calls.

    A call is [function, arguments before, result, state after].
    """
    for number, (eager_call, compiled_call) in enumerate(zip(eager, compiled, strict=False), start=1):
        if eager_call[0] != compiled_call[0] or not alike(eager_call[1], compiled_call[1]):
            return None
        if not alike(eager_call[2], compiled_call[2]):
            return DifferingCall("result", number, eager_call[0])
        shared_state = {name: state for name, state in eager_call[3].items() if name in compiled_call[3]}
        if not alike(shared_state, {name: compiled_call[3][name] for name in shared_state}):
            name = first_difference(shared_state, compiled_call[3])
            values = differing_values(shared_state, compiled_call[3])
            return DifferingCall("state", number, eager_call[0], name, *values)
    return None
