"""Where units run: threads of this process, submitit (Slurm), Dask, or anything else with `submit`."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from repro_kit.errors import CannotRunError, UsageError
from repro_kit.visible import one_line

FORMS = "local, submitit[:OPTION=VALUE,…], dask://HOST:PORT or MODULE:FACTORY"
_CONNECT = 10  # seconds to wait for Dask's scheduler
_MINUTES = 240  # time limit of a job, unless the options of submitit say another
#: Options of submitit that every cluster knows; the other ones are Slurm's.
_GENERIC = frozenset(
    ("name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node", "stderr_to_stdout")
)


class Submitted(Protocol):
    """A unit that was submitted."""

    def done(self) -> bool:
        """Whether it has ended."""
        ...

    def result(self) -> Any:
        """What it returned. Raises what it raised, or an exception of the executor when its worker was lost."""
        ...


class Executor(Protocol):
    """Runs functions somewhere. Their arguments are paths that the workers see."""

    def submit(self, function: Callable[..., Any], /, *arguments: str) -> Submitted:
        """Run ``function(*arguments)`` some time."""
        ...


@dataclass(frozen=True)
class Workers:
    """An executor, and how many units it gets at the same time; None: all, as it has its own queue."""

    executor: Executor
    at_once: int | None = None


class LocalExecutor:
    """Runs each unit in a thread of this process. It waits for child processes, which end when this process ends.

    The threads are daemons, unlike those of `concurrent.futures`: Ctrl-C must not wait for running units.
    """

    def submit(self, function: Callable[..., Any], /, *arguments: str) -> Future[Any]:
        """Run the function in a new thread."""
        future: Future[Any] = Future()
        threading.Thread(target=_fulfil, args=(future, function, arguments), daemon=True).start()
        return future


def _fulfil(future: Future[Any], function: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    try:
        future.set_result(function(*arguments))
    except BaseException as error:  # `result` raises it in the caller
        future.set_exception(error)


@contextmanager
def open_workers(word: str, count: int | None, logs: Path) -> Iterator[Workers]:
    """The executor that `word` names (see `FORMS`), closed afterwards.

    `count`: the most units at the same time; None: 1 in this process, else as many as the executor takes. `logs`: the
    directory for the files of submitit. Raises UsageError for a word that names none, and CannotRunError when there is
    no scheduler.
    """
    kind, _, rest = word.partition(":")
    if word == "local":
        yield Workers(LocalExecutor(), count or 1)
    elif kind == "submitit":
        yield _submitit(rest, count, logs)
    elif kind == "dask":
        with closing(_dask_client(word)) as client:
            yield Workers(_DaskExecutor(client), count)
    elif kind and rest and not rest.startswith("//"):
        yield Workers(_made_by(word), count)
    else:
        raise UsageError(f"--executor takes {FORMS}, not {word!r}.")


class _DaskExecutor:
    """Submits to Dask. A unit whose worker is lost is run again by Dask itself, on another worker."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def submit(self, function: Callable[..., Any], /, *arguments: str) -> Submitted:
        """Run the function on a worker of the cluster."""
        submitted: Submitted = self._client.submit(function, *arguments, pure=False)
        return submitted


def _dask_client(word: str) -> Any:
    distributed = _extra("distributed", "dask")
    address = word.removeprefix("dask:").removeprefix("//")
    if not address.rpartition(":")[2].isdecimal():
        raise UsageError(f"--executor takes Dask's scheduler as dask://HOST:PORT, not {word!r}.")
    try:
        return distributed.Client(f"tcp://{address}", timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise CannotRunError(f"There is no Dask scheduler at {address} ({error}).") from error


def _submitit(text: str, count: int | None, logs: Path) -> Workers:
    submitit = _extra("submitit", "submitit")
    options: dict[str, Any] = {"timeout_min": _MINUTES}
    for option in filter(None, text.split(",")):
        name, equals, value = option.partition("=")
        if not (name and equals):
            raise UsageError(f"--executor submitit takes OPTION=VALUE,…, not {option!r}.")
        specific = name in _GENERIC or name == "cluster" or name.startswith(("slurm_", "local_"))
        options[name if specific else f"slurm_{name}"] = int(value) if value.isdecimal() else value
    try:
        executor = submitit.AutoExecutor(folder=logs, cluster=options.pop("cluster", None))
        executor.update_parameters(**options)
    except (AssertionError, NameError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise UsageError(f"--executor {text!r}: submitit refuses it: {reason}.") from error
    return Workers(executor, count or (1 if executor.cluster == "local" else None))


def _made_by(word: str) -> Executor:
    """What the factory returns. Its module may be in the current directory."""
    module, _, name = word.partition(":")
    sys.path.insert(0, "")
    try:
        executor = getattr(importlib.import_module(module), name)()
    except Exception as error:  # of code that the user names
        reason = one_line(str(error)) or type(error).__name__
        raise UsageError(f"--executor {word}: {reason}; it takes {FORMS}.") from error
    finally:
        sys.path.remove("")
    if not callable(getattr(executor, "submit", None)):
        raise UsageError(f"--executor {word}: what {name}() returns has no method `submit`.")
    made: Executor = executor
    return made


def _extra(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"--executor {extra} needs more: pip install 'repro-kit[{extra}]' ({error}).") from error
