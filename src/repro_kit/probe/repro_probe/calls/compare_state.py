"""Compare the Python state that a compiled call leaves with the state that the same call leaves in eager."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from repro_probe.calls.calls import Call
from repro_probe.calls.compare_calls import CALLS
from repro_probe.calls.state_digest import StateDigest

_LIMIT = 60.0  # seconds that a call in eager may take
_PIECE = 1 << 16  # bytes of one read


def compare_state(call: Call) -> Callable[[], None]:
    """Make the call in eager, in children. Return a function to be called after the compiled call.

    The children keep this process and what its script does as they are. What two calls in eager leave differently,
    such as a time, is ignored.
    """
    import torch

    if call.record["calls"] > CALLS:
        return _nothing
    if torch.cuda.is_initialized() or not hasattr(os, "fork"):  # a forked child cannot use the device
        call.record["problem"] = "the call in eager needs a forked child, which cannot use CUDA"
        return _nothing
    eager = _in_child(lambda: _eager(torch, call))
    again = _in_child(lambda: _eager(torch, call))
    if not eager or eager != again:
        return _nothing

    def end() -> None:
        record = call.record
        record["compared"] = record.get("compared", 0) + 1
        drew, state = json.loads(eager)
        left = _python_state(torch, call, values=not drew)
        if json.dumps([drew, left]) != eager:
            record.setdefault("states", []).append((record["calls"], state, left))

    return end


def _nothing() -> None:
    """Compare nothing."""


def _eager(torch: Any, call: Call) -> list[Any]:
    """Make the call in eager. Returns whether it drew random numbers, and the state that it leaves.

    With other random numbers the compiled call leaves other values, so that only their forms are compared.
    """
    torch.set_num_threads(1)  # the threads of the parent are not in a child
    before = torch.random.get_rng_state()
    arguments, named = call.arguments
    call.eager(*arguments, **named)
    drew = not torch.equal(before, torch.random.get_rng_state())
    return [drew, _python_state(torch, call, values=not drew)]


def _python_state(torch: Any, call: Call, *, values: bool) -> dict[str, Any]:
    """Return the state that the function of `call` can reach. The values of arguments are compared elsewhere."""
    arguments, named = call.arguments
    given = {**{f"argument {at}": value for at, value in enumerate(arguments)}, **named}
    forms = StateDigest(torch, values=False)
    return {**StateDigest(torch, values=values).of_reach(call.original), **forms.of(given)}


def _in_child(work: Callable[[], Any]) -> str:
    """Return what `work` returns in a forked child, as JSON text; "" if it raises, or does not end in time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work(work, writing)
    os.close(writing)
    try:
        return _read(reading)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _work(work: Callable[[], Any], writing: int) -> None:
    """Write the result of `work`, and end this process, whose output nobody wants twice."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with os.fdopen(writing, "w", encoding="utf-8") as file:
            json.dump(work(), file)
    finally:
        os._exit(0)


def _read(reading: int) -> str:
    """Read all that a child writes; "" if that takes longer than the limit."""
    pieces: list[bytes] = []
    until = time.monotonic() + _LIMIT
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(reading, _PIECE)
        if not piece:
            return b"".join(pieces).decode()
        pieces.append(piece)
    return ""
