"""Measure how compile time grows with the number of repetitions of a program.

The family is the program, called 1, 2, 4 … times in a row: it needs no knowledge of the program. What is measured is
the CPU time of the process, so that other work of the machine counts little. `repro.py` holds this code too.
"""

from __future__ import annotations

import gc
import math
import signal
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch
import torch._inductor.compile_fx  # loaded here, the first compile that is measured does not load it
from torch._inductor.async_compile import AsyncCompile

TOO_LONG = 4.0  # CPU seconds after which one compile is given up
#: CPU seconds of a compile that ends the measurement, and those after which one is given up. The second pair is for
#: times in which a part that grows fast may still be hidden: it shows where the repetitions are many.
PATIENCE = ((1.5, TOO_LONG), (16.0, 32.0))
LAST_TRY = 3 * TOO_LONG  # CPU seconds of the compile after four that end: a fit of four alone is rough
SMALL, LARGE, OWN = 0.05, 0.5, 0.3  # shares of such a part in the longest time; the last one is for one function
NEARLY = 0.85  # the share of a number that is nearly as large
BENT = 1.3  # the least power that a linear time does not show by chance
HIGH = 4.5  # above it, a part that makes most of the time is likelier an exponential than a power
LEAST, COARSE = 0.005, 0.02  # CPU seconds: the clock of some machines counts no less; a time this short counts half
SHORT = 0.5  # CPU seconds of the longest compile; what is shorter shows the clock and not the growth
EVERY, SEEN = 0.002, 0.01  # seconds between two looks at the stack, and those after which a function was surely seen
FAR, SURE = 3.0, 8.0  # times a compile that ends must be quicker than one that was given up; the latter for a search
BEYOND = 0.75  # added to a limit, a power that a compile which was given up shows alone, whatever those that end show
CERTAIN = 2.5  # times the CPU seconds of a limit after which no slowness of the CPU explains them
TIMES = 3  # measurements: other work of the machine may hide a growth in one
STEPS = range(150)  # of a loop that shows how fast the CPU is
#: Seconds of that loop on a quick CPU with CPython 3.11. CPU seconds are counted as those of such a CPU, so that a slow
#: machine measures as many repetitions; the seconds of one that is slower than SLOWEST times count 1/SLOWEST each.
PACE, SLOWEST = 3e-6, 4.0
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


def pace() -> float:
    """Return how long a short loop takes now. Other work on the same core makes it up to twice as long."""
    took = []
    for _ in range(2):  # the quicker one was not interrupted
        before = time.perf_counter()
        for _ in STEPS:
            pass
        took.append(time.perf_counter() - before)
    return min(took)


def pace_to_count_at() -> float:
    """Return the pace whose seconds are counted: PACE, or that of this CPU (a median of 30 ms) where it is quicker."""
    paces = []
    for _ in range(15):
        time.sleep(EVERY)
        paces.append(pace())
    usual = sorted(paces)[7]
    return max(min(usual, PACE), usual / SLOWEST)


def cpu_seconds(
    compile_repeated: Callable[[int], None], count: int, counted: float, too_long: float = TOO_LONG
) -> tuple[float, dict[CodeType, float]]:
    """Return the CPU seconds of `compile_repeated(count)` in this process, and those within each function.

    The seconds within a function count the functions that it calls, too. They come from a look at the stack every
    2 ms. A second in which the CPU is slower than the pace `counted` counts less. Raises TooLong when the whole needs
    more than `too_long` such seconds, or sleeps.
    """
    seen = awake = time.process_time()
    total = 0.0
    until = time.monotonic() + WHILE
    within: dict[CodeType, float] = {}

    def stop(*_: Any) -> None:
        raise TooLong

    def since() -> float:
        nonlocal seen, total
        before, seen = seen, time.process_time()
        taken = (seen - before) * counted / pace()
        total += taken
        return taken

    def look(_: int, frame: FrameType | None) -> None:
        nonlocal awake, until
        taken = since()
        inside: dict[CodeType, None] = {}  # the innermost first, so that of two with equal seconds the inner is named
        while frame is not None and frame.f_code is not cpu_seconds.__code__:
            inside.setdefault(frame.f_code)
            frame = frame.f_back
        for code in inside:
            within[code] = within.pop(code, 0.0) + taken
        if total > too_long:
            raise TooLong
        if time.monotonic() > until:
            if seen - awake < ASLEEP:
                raise TooLong
            awake, until = seen, time.monotonic() + WHILE
        signal.setitimer(signal.ITIMER_REAL, EVERY)

    signal.signal(signal.SIGPROF, stop)
    signal.signal(signal.SIGALRM, look)
    certain = CERTAIN * too_long * max(pace() / counted, 1.0)
    signal.setitimer(signal.ITIMER_PROF, certain, certain)
    signal.setitimer(signal.ITIMER_REAL, EVERY)
    try:
        compile_repeated(count)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    since()
    return max(total, LEAST), within


def quickest(
    compile_repeated: Callable[[int], None], count: int, counted: float, too_long: float
) -> tuple[float, dict[CodeType, float]] | None:
    """Return the CPU seconds of the quicker of two compiles, or of one long one; None when it takes `too_long`.

    Another process can make a compile slower, and the first one, of one repetition, also loads the compiler.
    """
    runs: list[tuple[float, dict[CodeType, float]]] = []
    while not runs or (len(runs) == 1 and (count == 1 or runs[0][0] < SHORT)):
        try:
            runs.append(cpu_seconds(compile_repeated, count, counted, too_long))
        except TooLong:
            break
    return min(runs, key=lambda run: run[0], default=None)


def measure(
    compile_repeated: Callable[[int], None], limit: float
) -> tuple[dict[int, float], dict[int, dict[CodeType, float]], int | None]:
    """Return ({repetitions: CPU seconds}, the same within each function, repetitions that took too long or None).

    `limit` is the power above which the growth counts.
    """
    seconds: dict[int, float] = {}
    within: dict[int, dict[CodeType, float]] = {}
    gc.collect()
    gc.freeze()  # else what exists already makes every collection slow
    slow: list[int] = []
    counted = pace_to_count_at()
    for enough, too_long in PATIENCE:
        if slow or (seconds and not may_hide(seconds, within, limit)):
            break
        count = following(seconds, slow, enough) if seconds else 1
        while count is not None and (too_long == TOO_LONG or may_hide(seconds, within, limit)):
            run = quickest(compile_repeated, count, counted, too_long)
            if run is None:
                slow.append(count)
            else:
                seconds[count], within[count] = run
            count = following(seconds, slow, enough)
    if slow and len(seconds) == FEWEST - 1:
        run = quickest(compile_repeated, min(slow), counted, LAST_TRY)
        if run is not None:
            seconds[min(slow)], within[min(slow)] = run
            slow = [count for count in slow if count not in seconds]
    return seconds, within, min(slow, default=None)


def judged(compile_repeated: Callable[[int], None], limit: float) -> tuple[bool | None, str]:
    """Measure until the growth shows, TIMES at most; return the last judgement that is no None (see `judge`)."""
    told: tuple[bool | None, str] = None, ""
    for _ in range(TIMES):
        grows, words = judge(*measure(compile_repeated, limit), limit)
        if grows is not None or told[0] is None:
            told = grows, words
        if grows:
            break
    return told


def may_hide(seconds: dict[int, float], within: dict[int, dict[CodeType, float]], limit: float) -> bool:
    """Return whether growth beyond `limit` may be hidden in the times, and show with more repetitions."""
    if len(seconds) < 4:
        return False
    form, rate, share = growing_part(seconds)
    if (form == "factor" or rate > limit) and share >= LARGE:
        return False  # it shows
    code, times = steepest(seconds, within, limit)
    if len(times) < 4:
        return form == "power"
    form, rate, share = growing_part(times)
    small = share * times[max(times)] < least(code) * seconds[max(seconds)]
    return form == "power" and rate >= max(BENT, limit / 2) and share >= SMALL and (small or rate <= limit)


def following(seconds: dict[int, float], slow: list[int], enough: float) -> int | None:
    """Return the next number of repetitions to measure; None at the end. Gaps are filled where the times grow fast.

    `enough`: the CPU seconds of a compile that ends the measurement.
    """
    last = max(seconds, default=0)
    middle = (last + min(slow)) // 2 if slow else 0
    if not last or last >= MOST:
        return None
    if middle > last and len(slow) < 3 and (seconds[last] < enough or len(seconds) < FEWEST):
        return middle
    if slow or (seconds[last] >= enough and len(seconds) >= FEWEST):
        gaps = [count for count in range(last - 1, 1, -1) if count not in seconds]
        return gaps[0] if gaps and len(seconds) < MANY else None
    return 2 * last if seconds[last] < enough / 6 else math.ceil(1.5 * last)


def growing_part(seconds: dict[int, float]) -> tuple[str, float, float]:
    """Return (form, rate, share) of the part of the times that grows fastest.

    The form and the rate are ("power", exponent), or ("factor", that of each further repetition); the share is that of
    the longest time. The times are a constant, a linear part and one that grows faster, none negative, by least squares
    of the relative errors; those of short times count less, since the clock is coarse.
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
                terms = torch.stack([grown, *others], 1) / (taken + COARSE)[:, None]
                wanted = taken / (taken + COARSE)
                parts = torch.linalg.lstsq(terms, wanted[:, None]).solution[:, 0]
                misfit = float((terms @ parts - wanted).square().sum())
                if parts.min() >= 0 and misfit < best.get(form, (math.inf,))[0]:
                    best[form] = (misfit, rate, float(parts[0] / taken[-1]))
    power, factor = (best.get(form, (math.inf, 1.0, 0.0)) for form in ("power", "factor"))
    doubt = 0.5 if power[1] > HIGH and power[2] >= LARGE else 2.0
    steeper = doubt * factor[0] < power[0] or power[1] == RATES[-1]
    return ("factor", *factor[1:]) if steeper else ("power", *power[1:])


def steepest(
    seconds: dict[int, float], within: dict[int, dict[CodeType, float]], limit: float
) -> tuple[CodeType | None, dict[int, float]]:
    """Return the function with most of the seconds that grow faster than the power `limit`, and its times.

    The function is None, for the whole compile, where no function grows so fast. The times of a function show its rate
    better than those of the whole, which hold parts of other kinds, too. Times that may be chance are left out.
    """
    last = max(seconds)
    half = max(count for count in seconds if 2 * count <= last)
    explained = (last / half) ** limit
    beyond = {
        code: taken - explained * max(within[half].get(code, 0.0), SEEN)
        for code, taken in within[last].items()
        if taken >= SMALL * seconds[last]
    }
    most = max(beyond.values(), default=0.0)
    if most <= 0:
        return None, seconds
    inner = min((code for code in beyond if beyond[code] >= NEARLY * most), key=lambda code: within[last][code])
    return inner, {count: parts[inner] for count, parts in within.items() if parts.get(inner, 0.0) >= SEEN}


def least(code: CodeType | None) -> float:
    """The share of the longest time that a part that grows must have: the times of one function are more exact."""
    return OWN if code else LARGE


def judge(
    seconds: dict[int, float],
    within: dict[int, dict[CodeType, float]],
    slow: int | None,
    limit: float,
    in_search: bool = False,
) -> tuple[bool | None, str]:
    """Return whether compile time grows faster than the power `limit` of the repetitions (None: unknown), and how.

    Where few repetitions end, those that end must be much quicker than the one that was given up. `in_search`: more
    so, and no verdict rests on a compile that was given up alone, since a reduction would go after its noise.
    """
    if not seconds:
        return None, f"one compile takes more than {TOO_LONG:g} CPU seconds"
    last = max(seconds)
    times = ", ".join(f"{count}: {taken:.2f} s" for count, taken in sorted(seconds.items()))
    times = f"CPU time by repetitions: {times}" + (f", {slow}: more than {TOO_LONG:g} s" if slow else "")
    if len(seconds) < 4:
        bound = math.log(TOO_LONG / seconds[last]) / math.log(slow / last) if slow else 0.0
        far = SURE if in_search else FAR
        grows = True if bound > limit and far * seconds[last] < TOO_LONG else None
        return grows, f"compile time grows faster than the power {bound:.1f} of the repetitions ({times})"
    if slow is None and seconds[last] < SHORT:
        return False, f"compile time stays below {SHORT:g} s ({times})"
    form, rate, code = "power", 1.0, None
    for part, parts in (steepest(seconds, within, limit), (None, seconds)):
        found = growing_part(parts) if len(parts) >= 4 else (form, rate, 0.0)
        if min(found[2], 1.0) * parts[last] >= least(part) * seconds[last]:
            form, rate, code = *found[:2], part
            break
    how = f"with the power {rate:.2g} of the repetitions" if form == "power" else f"{rate:.2g} times per repetition"
    if code is not None:
        how += f" in {code.co_name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"
    bound = math.log(TOO_LONG / seconds[last]) / math.log(slow / last) if slow else 0.0
    too_rough = form != "factor" and rate <= limit < bound - BEYOND  # the times that end, for a fit
    if too_rough and not in_search:
        return True, f"compile time grows faster than the power {bound:.1f} of the repetitions ({times})"
    return form == "factor" or rate > limit, f"compile time grows {how} ({times})"
