"""Measure how compile time grows with the number of repetitions of a program.

The family is the program, called 1, 2, 4 … times in a row: it needs no knowledge of the program. What is measured is
the CPU time of the process, so that other work of the machine counts little. `repro.py` holds the code of this module.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.async_compile import AsyncCompile

TOO_LONG = 4.0  # CPU seconds after which one compile is given up
ENOUGH = 1.5  # CPU seconds: a compile that takes so long ends the measurement
LEAST = 0.005  # CPU seconds: the clock of some machines counts no less
ASLEEP, WHILE = 0.05, 15.0  # a compile sleeps that uses fewer CPU seconds in these seconds: no machine is as busy
FEWEST, MANY, MOST = 5, 7, 1000  # measurements before the last one, measurements with those in between, repetitions
RATES = [step / 20 for step in range(22, 121)]


class TooLong(BaseException):
    """Raised when one compile has used too much CPU time. No `except Exception` may catch it."""


def repeated(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return `function` called `count` times in a row, each time on its last results where they fit its arguments."""

    def chain(*arguments: Any) -> Any:
        current, changed, others = list(arguments), {}, []
        for _ in range(count):
            results = function(*current)
            taken = set()
            for result in results if isinstance(results, (tuple, list)) else (results,):
                fits = [at for at, value in enumerate(current) if at not in taken and alike(value, result)]
                if fits:
                    taken.add(fits[0])
                    changed[fits[0]] = current[fits[0]] = result
                else:
                    others.append(result)
        return [*others, *changed.values()]

    return chain


def alike(value: Any, result: Any) -> bool:
    """Whether `result` can take the place of the argument `value`."""
    if not (isinstance(value, torch.Tensor) and isinstance(result, torch.Tensor) and result.is_floating_point()):
        return False
    return value.shape == result.shape and value.dtype == result.dtype and value.device == result.device


def without_native_compiler() -> None:
    """Let Inductor generate C++ and not compile it, in this process from now on. Its kernels then do nothing."""
    for name in ("cpp", "cpp_pybinding"):
        setattr(AsyncCompile, name, lambda *arguments, **named: lambda *pointers: None)


def cpu_seconds(compile_repeated: Callable[[int], None], count: int) -> float:
    """Return the CPU seconds that this process needs for `compile_repeated(count)`.

    Raises TooLong when it needs too many, or sleeps.
    """
    before = seen = time.process_time()

    def stop(*_: Any) -> None:
        raise TooLong

    def look(*_: Any) -> None:
        nonlocal seen
        last, seen = seen, time.process_time()
        if seen - last < ASLEEP:
            raise TooLong

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, stop, TOO_LONG), (signal.SIGALRM, signal.ITIMER_REAL, look, WHILE))
    for number, timer, handler, first in timers:
        signal.signal(number, handler)
        signal.setitimer(timer, first, first)
    try:
        compile_repeated(count)
    finally:
        for _, timer, _, _ in timers:
            signal.setitimer(timer, 0)
    return max(time.process_time() - before, LEAST)


def measure(compile_repeated: Callable[[int], None]) -> tuple[dict[int, float], int | None]:
    """Return ({repetitions: CPU seconds}, repetitions that took too long or None) of `compile_repeated(repetitions)`.

    Each is the smaller of two, as long as the compile is short: another process can make a compile slower, and the
    first one also loads the compiler.
    """
    seconds: dict[int, float] = {}
    slow: list[int] = []
    count: int | None = 1
    while count is not None:
        try:
            seconds[count] = cpu_seconds(compile_repeated, count)
            if seconds[count] < ENOUGH / 2:
                seconds[count] = min(seconds[count], cpu_seconds(compile_repeated, count))
        except TooLong:
            slow.append(count)
        count = following(seconds, slow)
    return seconds, min(slow, default=None)


def following(seconds: dict[int, float], slow: list[int]) -> int | None:
    """Return the next number of repetitions to measure; None at the end. Gaps are filled where the times grow fast."""
    last = max(seconds, default=0)
    middle = (last + min(slow)) // 2 if slow else 0
    if not last or last >= MOST:
        return None
    if middle > last and len(slow) < 3 and (seconds[last] < ENOUGH or len(seconds) < FEWEST):
        return middle
    if slow or (seconds[last] >= ENOUGH and len(seconds) >= FEWEST):
        gaps = [count for count in range(last - 1, 1, -1) if count not in seconds]
        return gaps[0] if gaps and len(seconds) < MANY else None
    return 2 * last if seconds[last] < ENOUGH / 6 else math.ceil(1.5 * last)


def fit(seconds: dict[int, float]) -> tuple[str, float]:
    """Return (form, rate) of the growth: ("power", exponent), or ("factor", that of each further repetition).

    The times are a constant, a linear part and one that grows faster, none negative, by least squares of the relative
    errors. Where the last part makes less than half of the longest time, the growth counts as linear.
    """
    count, taken = torch.tensor(sorted(seconds.items()), dtype=torch.float64).T
    constant = torch.ones_like(count)
    best: dict[str, tuple[float, float, float]] = {}
    for form in ("power", "factor"):
        for rate in RATES:
            grown = (count / count[-1]) ** rate if form == "power" else rate ** (count - count[-1])
            for others in ([], [constant], [count], [constant, count]):
                if others and len(others) + 3 > len(count):
                    continue
                terms = torch.stack([grown, *others], 1) / taken[:, None]
                parts = torch.linalg.lstsq(terms, constant[:, None]).solution[:, 0]
                misfit = float((terms @ parts - 1).square().sum())
                if parts.min() >= 0 and misfit < best.get(form, (math.inf,))[0]:
                    best[form] = (misfit, rate, float(parts[0] / taken[-1]))
    power, factor = (best.get(form, (math.inf, 1.0, 0.0)) for form in ("power", "factor"))
    steeper = 2 * factor[0] < power[0] or power[1] == RATES[-1]
    form, (_, rate, share) = ("factor", factor) if steeper else ("power", power)
    return (form, rate) if share >= 0.5 else ("power", 1.0)


def judge(seconds: dict[int, float], slow: int | None, limit: float) -> tuple[bool | None, str]:
    """Return whether compile time grows faster than the power `limit` of the repetitions (None: unknown), and how."""
    if not seconds:
        return None, f"one compile takes more than {TOO_LONG:g} CPU seconds"
    last = max(seconds)
    times = ", ".join(f"{count}: {taken:.2f} s" for count, taken in sorted(seconds.items()))
    times = f"CPU time by repetitions: {times}" + (f", {slow}: more than {TOO_LONG:g} s" if slow else "")
    if len(seconds) < 4:
        bound = math.log(TOO_LONG / seconds[last]) / math.log(slow / last) if slow else 0.0
        grows = True if bound > limit and 3 * seconds[last] < TOO_LONG else None
        return grows, f"compile time grows faster than the power {bound:.1f} of the repetitions ({times})"
    form, rate = fit(seconds)
    how = f"with the power {rate:.2g} of the repetitions" if form == "power" else f"{rate:.2g} times per repetition"
    return form == "factor" or rate > limit, f"compile time grows {how} ({times})"
