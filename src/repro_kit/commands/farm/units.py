"""Run units by an executor (threads, submitit, Dask, or the user's own), and record each result at once."""

from __future__ import annotations

import importlib
import secrets
import shutil
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from repro_kit.builds.build_source import Ready, UnusableError
from repro_kit.builds.several import BuildLine
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.errors import CannotRunError, Exit, ReproKitError, UsageError
from repro_kit.failure.signature import RunOutcome
from repro_kit.files import remove_unfinished, write_atomic
from repro_kit.regressions.build import Build
from repro_kit.regressions.plan import DueUnit
from repro_kit.regressions.store import FarmCase, FarmStore
from repro_kit.regressions.unit import WORDS, UnitOrder, UnitResult, UnitRules, now
from repro_kit.repro_run.run_unit import RUNS, finished_runs, read_result, run_unit_file
from repro_kit.repro_run.running import START_MARGIN
from repro_kit.serialize import dumps
from repro_kit.ui import Ui
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


_TRIES = 3  # times that a unit is given to a worker: its worker may be lost
_POLL = 0.1  # seconds between two looks at running units
_LONGEST = 300  # characters of a note


def import_results(place: FarmPlace, store: FarmStore) -> None:
    """Record the results that a killed run left, and remove its orders."""
    place.results.mkdir(exist_ok=True)
    remove_unfinished(place.results.iterdir())
    for path in sorted(place.results.glob("*.json")):
        try:
            result = read_result(path)
        except (OSError, ValueError):
            path.unlink()
            continue
        with store.writing():
            store.record([result])
        path.unlink()
    shutil.rmtree(place.orders, ignore_errors=True)


def begun_units(place: FarmPlace) -> Iterator[UnitResult]:
    """The finished runs of units that were interrupted."""
    for path in place.results.glob(f"*{RUNS}"):
        try:
            yield read_result(path)
        except (OSError, ValueError):
            continue


@contextmanager
def no_alarm() -> Iterator[None]:
    """Turn an error with exit code 1 into CannotRunError: in a farm, code 1 means that a case newly fails."""
    try:
        yield
    except ReproKitError as error:
        if error.exit_code is not Exit.FAILED:
            raise
        raise CannotRunError(str(error)) from error


@dataclass(frozen=True)
class _Try:
    """A unit that is given to a worker for the `number`-th time."""

    order: UnitOrder
    number: int = 1


class UnitRunner:
    """Runs units, and counts them. `timeout`: seconds of one run of a case that asks for no more."""

    def __init__(self, place: FarmPlace, store: FarmStore, workers: Workers, timeout: float, ui: Ui) -> None:
        self.units = 0
        self._place = place
        self._store = store
        self._workers = workers
        self._token = secrets.token_hex(4)  # a worker that outlives a killed run must not write results of this run
        self._timeout = timeout
        self._ui = ui
        self._seen: dict[str, tuple[int, int]] = {}  # by unit: when its runs were read, how many they were

    def run_build(
        self,
        line: BuildLine,
        build: Build,
        due: Sequence[tuple[FarmCase, DueUnit]],
        *,
        recorded: Build | None = None,
    ) -> list[UnitResult]:
        """Get a build ready, and run units on it. On a build that does not install no case can run.

        `recorded`: the build that the results are of; a twin's are of the build of the day.
        """
        of = recorded or build
        with self._ui.stage("build"):
            self._ui.progress(f"{line.name} {build.shown}: getting it ready for {len(due)} cases")
            try:
                with line.source.ready(build) as ready:
                    results = self.run_units(line, of, ready, due)
            except UnusableError as error:
                note = f"it does not install: {error}"
                results = [_not_run(case.id, line.name, of.name, unit.attempt, note) for case, unit in due]
                self._record(results)
            shown = build.shown if of is build else f"{of.shown} on {build.shown}"
            self._ui.done(f"{line.name} {shown}: {counted(results)}")
        return results

    def run_units(
        self, line: BuildLine, build: Build, ready: Ready, due: Sequence[tuple[FarmCase, DueUnit]]
    ) -> list[UnitResult]:
        """Run units on a build that is ready; the results in the order in which they came."""
        names = {case.id: case.name for case, _ in due}
        waiting = deque(_Try(self._order(case, line, build, ready, unit)) for case, unit in due)
        running: list[tuple[Submitted, _Try]] = []
        results: list[UnitResult] = []
        while waiting or running:
            while waiting and len(running) < (self._workers.at_once or len(due)):
                running.append((self._submit(waiting[0].order), waiting.popleft()))
            ended = [(future, each) for future, each in running if future.done()]
            running = [pair for pair in running if pair not in ended]
            for future, each in ended:
                result = self._ended(future, each)
                if result is None:
                    waiting.append(_Try(each.order, each.number + 1))
                    continue
                results.append(result)
                told = f"{names[result.case]} on {build.shown}: {WORDS[result.outcome]} {result.note}".rstrip()
                self._ui.detail(f"{told} ({len(results)} of {len(due)})")
            now = ", ".join(f"{names[each.order.case]} (run {self._runs(each.order) + 1})" for _, each in running)
            done = f", {len(results)} of {len(due)} cases done" if results else f", {len(due)} cases"
            self._ui.progress(f"{line.name} {build.shown}: {now or 'no case'}{done}")
            if not ended:
                time.sleep(_POLL)
        return results

    def _runs(self, order: UnitOrder) -> int:
        """How many runs of a unit have ended."""
        path = finished_runs(self._paths(order)[1], order.name)
        try:
            changed = path.stat().st_mtime_ns
            if self._seen.get(order.name, (0, 0))[0] != changed:
                self._seen[order.name] = changed, read_result(path).runs
        except (OSError, ValueError):  # none has ended, or the last one is being written
            return 0
        return self._seen[order.name][1]

    def _submit(self, order: UnitOrder) -> Submitted:
        path, result = self._paths(order)
        write_atomic(path, dumps(order))
        return self._workers.executor.submit(run_unit_file, str(path), str(result))

    def _paths(self, order: UnitOrder) -> tuple[Path, Path]:
        name = f"{order.name}-{self._token}.json"
        return self._place.orders / name, self._place.results / name

    def _ended(self, future: Submitted, each: _Try) -> UnitResult | None:
        """Take up the result of a unit that has ended; None when its worker was lost, and it is to be run again."""
        order, (order_path, path) = each.order, self._paths(each.order)
        try:
            future.result()
            result = read_result(path)
        except ReproKitError as error:
            result = _not_run(order.case, order.line, order.build, order.attempt, str(error))
        except Exception as error:  # of any executor: only its result file says that a unit has ended
            reason = one_line(str(error)) or type(error).__name__
            self._ui.warn(f"A unit on {order.build} was lost ({reason}).")
            if each.number < _TRIES:
                return None
            if not self.units:  # the workers are at fault, not the case
                raise CannotRunError(f"No worker could run a unit: {reason}.") from error
            note = f"its worker was lost {_TRIES} times: {reason}"[:_LONGEST]
            result = _not_run(order.case, order.line, order.build, order.attempt, note)
        self._record([result])
        path.unlink(missing_ok=True)
        order_path.unlink(missing_ok=True)
        return result

    def _record(self, results: Sequence[UnitResult]) -> None:
        with self._store.writing():
            self._store.record(results)
        self.units += len(results)

    def _order(self, case: FarmCase, line: BuildLine, build: Build, ready: Ready, unit: DueUnit) -> UnitOrder:
        return UnitOrder(
            case.id,
            line.name,
            build.name,
            unit.attempt,
            str(self._place.entry(case.id).absolute()),
            ready.python,
            dict(ready.variables),
            max(self._timeout, (case.facts.limit or 0) + START_MARGIN),
            UnitRules(case.facts.signature, unit.passes, unit.failures, hangs=unit.hangs),
        )


def _not_run(case: str, line: str, build: str, attempt: int, note: str) -> UnitResult:
    return UnitResult(build, RunOutcome.CANNOT_TELL, note=note, attempt=attempt, at=now(), case=case, line=line)


def counted(results: Sequence[UnitResult]) -> str:
    """How many units had which outcome: ``fails: 3, passes: 2``."""
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{words}: {counts[outcome]}" for outcome, words in WORDS.items() if counts[outcome])
