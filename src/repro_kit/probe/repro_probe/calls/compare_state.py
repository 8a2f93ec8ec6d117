"""Compare the Python state that a compiled call leaves with the state that the same call in eager leaves."""

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
from repro_probe.calls.python_state import StateDigest
from repro_probe.record.surroundings import switches

_LIMIT = 60.0  # seconds that a call in eager may take
_PIECE = 1 << 16  # bytes of one read


def compare(call: Call) -> Callable[[Exception | None], None]:
    """Make the call in eager, in children. Return a function to be called after the compiled call.

    That function gets the exception of the compiled call, if any. The children keep this process and what its script
    does as they are. What two calls in eager leave differently, such as a time, is ignored.
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

    def end(error: Exception | None) -> None:
        record = call.record
        drew, raised, state = json.loads(eager)
        if raised != (error is not None):
            record["problem"] = "only one of the call in eager and the compiled call raises"
            return
        record["compared"] = record.get("compared", 0) + 1
        left = _python_state(torch, call, values=not drew, raised=raised)
        if json.dumps([drew, raised, left]) != eager:
            record.setdefault("states", []).append((record["calls"], state, left))

    return end


def _nothing(error: Exception | None) -> None:
    """Compare nothing."""


def _eager(torch: Any, call: Call) -> list[Any]:
    """Make the call in eager. Returns whether it drew random numbers, whether it raised, and the state that it leaves.

    With other random numbers the compiled call leaves other values, so that only their forms are compared.
    """
    torch.set_num_threads(1)  # the threads of the parent are not in a child
    before = torch.random.get_rng_state()
    arguments, named = call.arguments
    raised = False
    try:
        call.eager(*arguments, **named)
    except Exception:
        raised = True
    drew = not torch.equal(before, torch.random.get_rng_state())
    return [drew, raised, _python_state(torch, call, values=not drew, raised=raised)]


def _python_state(torch: Any, call: Call, *, values: bool, raised: bool) -> dict[str, Any]:
    """Return the state that the function of `call` can reach.

    The values of arguments are part of it only where the call has raised: else they are compared elsewhere.
    """
    arguments, named = call.arguments
    given = {**{f"argument {at}": value for at, value in enumerate(arguments)}, **named}
    forms = StateDigest(torch, values=values and raised)
    settings = {"settings of torch": [*switches(), f"torch.set_default_dtype({torch.get_default_dtype()})"]}
    return {**StateDigest(torch, values=values).of_reach(call.original), **forms.of(given), **settings}


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
