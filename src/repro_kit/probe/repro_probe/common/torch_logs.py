"""Keep torch's logs and trace apart from the program's descriptors, and from its own settings of logs."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from typing import Any

from repro_probe.protocol.orders import LOGS

_HIGH = 1000  # the number of a descriptor; most systems give a process 1024


def keep_apart(internal: Any) -> None:
    """Let the logs have one descriptor, and the trace another, out of reach. `internal` is torch._logging._internal."""
    for name, keep in (("_init_logs", _open_once), ("LazyTraceHandler", _move_trace), ("set_logs", _obey)):
        if hasattr(internal, name):  # the oldest torch has no trace
            keep(internal)


def _open_once(internal: Any) -> None:
    """Let all loggers write to one file: torch opens it for each of them."""
    init_logs = internal._init_logs

    @functools.wraps(init_logs)
    def init_logs_once(*arguments: Any, **named: Any) -> Any:
        opens = logging.FileHandler
        made: dict[str, Any] = {}

        def handler_of(path: str) -> Any:
            if path not in made:
                made[path] = opens(path)
                made[path].stream = _moved(made[path].stream)
                made[path].handleError = lambda record: _drop_stream(made[path], record)
            return made[path]

        logging.FileHandler = handler_of  # type: ignore[misc, assignment]
        try:
            return init_logs(*arguments, **named)
        finally:
            logging.FileHandler = opens  # type: ignore[misc]

    internal._init_logs = init_logs_once


def _move_trace(internal: Any) -> None:
    """Move the file of a trace out of reach once it is opened, and let no error of it reach the program."""
    handler_class = internal.LazyTraceHandler
    emit = handler_class.emit

    @functools.wraps(emit)
    def emit_out_of_reach(handler: Any, record: logging.LogRecord) -> None:
        before = handler.stream
        try:
            emit(handler, record)
        except OSError:  # a child of the program has closed the descriptor: this opens a file of its own
            with contextlib.suppress(OSError):
                emit(handler, record)
        if handler.stream is not None and handler.stream is not before:
            handler.stream = _moved(handler.stream)

    handler_class.emit, handler_class.handleError = emit_out_of_reach, _drop_stream


def _obey(internal: Any) -> None:
    """Let the program set its logs: torch would ignore that, since the run has set a variable."""
    set_logs = internal.set_logs

    @functools.wraps(set_logs)
    def set_logs_beside(**named: Any) -> None:
        variable = internal.LOG_ENV_VAR
        if os.environ.get(variable) != LOGS:  # one of the user's own
            set_logs(**named)
            return
        internal.LOG_ENV_VAR = ""
        try:
            set_logs(**{**dict.fromkeys(LOGS.split(","), True), **named})
        finally:
            internal.LOG_ENV_VAR = variable

    internal.set_logs = set_logs_beside


def _drop_stream(handler: Any, record: logging.LogRecord) -> None:
    """After an error of the system, let the next record open the file again: the program may have closed it."""
    if isinstance(sys.exc_info()[1], OSError):
        handler.stream = None
    else:
        logging.Handler.handleError(handler, record)


def _moved(stream: Any) -> Any:
    """`stream` with a descriptor that is out of reach."""
    stream.flush()
    moved = os.fdopen(out_of_reach(os.dup(stream.fileno())), stream.mode, encoding=stream.encoding)
    stream.close()
    return moved


def out_of_reach(file: int) -> int:
    """`file` under a high number: a program may close the low ones and open its own, which must not be written to."""
    import fcntl  # not on every system

    try:
        high = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except OSError:  # the process may have fewer
        return file
    os.close(file)
    return high
