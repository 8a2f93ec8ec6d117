"""Measure a compiled call after its warm-up, and the same call in eager, by turns in one process.

Taking turns spreads other load of the machine over both. Times are in seconds, memory is in bytes, and every pair is
[compiled, eager].
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from repro_probe.protocol.orders import Measure

if TYPE_CHECKING:
    from repro_probe.calls.calls import Call

_BLOCK = 0.01  # the shortest measurement, in seconds
_WARM = 3  # the fewest calls before measuring; there are more while functions are still being compiled
_MOST_WARM = 20
_ROUNDS, _LEAST_ROUNDS = 60, 7
_SECONDS = 4.0  # for the rounds after the first _LEAST_ROUNDS
_PRECISE = 0.02  # the relative standard error of the ratio at which there are enough rounds
_MEMORY_CALLS, _MEMORY_ROUNDS = 3, 7


def observer(measures: Sequence[Measure]) -> Callable[[Call], None]:
    """Return an observer (calls.py) that measures a call's ``time``, its ``memory``, or both."""

    def observe(call: Call) -> None:
        for function in (call.run, call.eager):
            _warm_up(call, function)
        before = _frames()
        if "time" in measures:
            call.record["rounds"] = _rounds(call)
        if "memory" in measures:
            call.record["memory"] = [
                [_memory(call, call.run), _memory(call, call.eager)] for _ in range(_MEMORY_ROUNDS)
            ]
        if _frames() != before:
            call.record["note"] = "it was compiled anew while it was measured"

    return observe


def _frames() -> int:
    """Return the number of frames that Dynamo has processed."""
    from torch._dynamo.utils import counters

    return counters["frames"]["total"]


def _warm_up(call: Call, function: Callable[..., Any]) -> None:
    for number in range(_MOST_WARM):
        before = _frames()
        call.make(function)
        if number + 1 >= _WARM and _frames() == before:
            return


def _rounds(call: Call) -> list[list[float]]:
    lengths = [_calls_of_a_block(call, function) for function in (call.run, call.eager)]
    until = time.monotonic() + _SECONDS
    rounds: list[list[float]] = []
    while len(rounds) < _LEAST_ROUNDS or not (_distributed() or time.monotonic() > until or _precise(rounds)):
        order = (0, 1) if len(rounds) % 2 else (1, 0)
        seconds = [0.0, 0.0]
        for at in order:
            seconds[at] = _seconds(call, (call.run, call.eager)[at], lengths[at])
        rounds.append(seconds)
        if len(rounds) == _ROUNDS:
            break
    return rounds


def _precise(rounds: list[list[float]]) -> bool:
    quartiles = statistics.quantiles([compiled / eager for compiled, eager in rounds])
    spread = (quartiles[2] - quartiles[0]) / 1.35  # as of a normal distribution
    return spread / math.sqrt(len(rounds)) < _PRECISE * quartiles[1]


def _calls_of_a_block(call: Call, function: Callable[..., Any]) -> int:
    if _distributed():  # all ranks must make the same number of calls
        return 1
    return max(1, math.ceil(_BLOCK / max(_seconds(call, function, 1), 1e-6)))


def _seconds(call: Call, function: Callable[..., Any], count: int) -> float:
    _synchronize()
    started = time.perf_counter()
    for _ in range(count):
        call.make(function)
    _synchronize()
    return (time.perf_counter() - started) / count


def _distributed() -> bool:
    torch = sys.modules["torch"]
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _cuda() -> Any:
    cuda = sys.modules["torch"].cuda
    return cuda if cuda.is_initialized() else None


def _synchronize() -> None:
    if _cuda():
        _cuda().synchronize()


def _memory(call: Call, function: Callable[..., Any]) -> int:
    """Return the peak memory of some calls in bytes, beyond the memory that the process uses before them."""
    gc.collect()
    cuda = _cuda()
    if cuda:
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
    else:
        _give_back()
        before = _reset_peak()
    for _ in range(_MEMORY_CALLS):
        call.make(function)
    _synchronize()
    return (cuda.max_memory_allocated() if cuda else _status("VmHWM")) - before


def _give_back() -> None:
    """Let malloc return free memory to the system, so that the memory counts when it is used again."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def _reset_peak() -> int:
    """Reset the peak of the resident memory (Linux), and return the bytes that are resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def peak() -> int | None:
    """Return the peak memory of this process in bytes: on the accelerator when it is used, else on the host."""
    if "torch" in sys.modules and _cuda():
        return _cuda().max_memory_allocated()
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
