"""Exceptions and stacks as JSON data (docs/explanation/zygote.md)."""

from __future__ import annotations

import linecache
import re
import signal
from types import FrameType, TracebackType
from typing import Any

from repro_probe.protocol.failure_data import FrameData, LinkData

_TIMERS = [getattr(signal, name) for name in ("SIGALRM", "SIGVTALRM", "SIGPROF") if hasattr(signal, name)]
_FAULT_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.+)$')


def describe_exception(error: BaseException | None) -> list[LinkData]:
    """Return the chain of `error` as a list: the outermost exception is first, and the root cause is last.

    Each entry has the type (qualified, but for builtins), the whole message, and the exception's own frames, outermost
    first.
    """
    return [
        {"type": _type_name(link), "message": _message(link), "frames": _frames_of(link.__traceback__)}
        for link in _chain(error)
    ]


def interrupted_frames(error: BaseException) -> list[FrameData]:
    """Return the frames, outermost first, that a timer's signal interrupted whose handler raised `error`; else [].

    Python calls a handler with the number of the signal and the frame that was interrupted, which is the frame before
    the handler's in the traceback.
    """
    for link in _chain(error):
        before, trace = None, link.__traceback__
        while trace is not None:
            if before is not None and _is_handler(trace.tb_frame, before.tb_frame):
                return _frames_of(link.__traceback__, trace)
            before, trace = trace, trace.tb_next
    return []


def _is_handler(frame: FrameType, interrupted: FrameType) -> bool:
    code = frame.f_code
    values = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    pairs = zip(values, values[1:])
    return any(isinstance(number, int) and number in _TIMERS and given is interrupted for number, given in pairs)


def _chain(error: BaseException | None) -> list[BaseException]:
    links: list[BaseException] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        links.append(error)
        error = _cause(error)
    return links


def _cause(error: BaseException) -> BaseException | None:
    """Return the explicit cause of `error`, else the error of the compiler that it hides, else `inner_exception`.

    An exception that was only being handled is no cause. The same rule reads tracebacks in text
    (`model/failure/tracebacks.py`, `chains`), so that both give one signature.
    """
    if error.__cause__ is not None:
        return error.__cause__
    context = error.__context__
    if context is not None and not error.__suppress_context__ and _hides(error, context):
        return context
    inner = getattr(error, "inner_exception", None)
    return inner if isinstance(inner, BaseException) else None


def _hides(newer: BaseException, older: BaseException) -> bool:
    """Whether the user's code raised `newer` in the place of an error of the compiler."""
    compilers = ("torch._dynamo.", "torch._inductor.")
    return _type_name(older).startswith(compilers) and not _type_name(newer).startswith("torch.")


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as problem:  # the user's __str__ is broken, or ends the program: only that can be shown
        return f"<message not printable: {type(problem).__name__}>"


def _frames_of(trace: TracebackType | None, until: TracebackType | None = None) -> list[FrameData]:
    """Return the frames of `trace`, without those from `until` on."""
    frames = []
    while trace is not None and trace is not until:
        code = trace.tb_frame.f_code
        frames.append(_frame(code.co_filename, trace.tb_lineno, code.co_name, trace.tb_frame.f_globals))
        trace = trace.tb_next
    return frames


def _frame(file: str, line: int | None, function: str, module_globals: dict[str, Any] | None = None) -> FrameData:
    code = linecache.getline(file, line, module_globals).strip() if line else ""
    return {"file": file, "line": line or 0, "function": function, "code": code}


def describe_fault(text: str) -> list[FrameData]:
    """Return the frames, outermost first, of the thread that crashed, from `text` written by faulthandler.

    At a time-out no thread has crashed. Then the frames are those of the main thread, which faulthandler writes last.
    """
    threads: list[tuple[bool, list[FrameData]]] = []
    for line in text.splitlines():
        if line.startswith(("Current thread ", "Thread ", "Stack (most recent")):
            threads.append((line.startswith("Current"), []))
            continue
        match = _FAULT_FRAME.match(line)
        if match and threads:
            number = int(match["line"]) if match["line"].isdigit() else 0
            threads[-1][1].append(_frame(match["file"], number, match["function"]))
    stacks = [frames for current, frames in threads if current and frames] or [f for _, f in threads if f]
    return stacks[-1][::-1] if stacks else []
