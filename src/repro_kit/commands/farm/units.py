"""Run units by an executor, and record each result as soon as it is there: a killed run loses only what was running."""

from __future__ import annotations

import secrets
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from repro_kit.bisect.build import Build
from repro_kit.builds.build_source import Ready, UnusableError
from repro_kit.builds.several import BuildLine
from repro_kit.commands.farm.executor import Submitted, Workers
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.errors import CannotRunError, Exit, ReproKitError
from repro_kit.farm.plan import DueUnit
from repro_kit.farm.store import FarmCase, FarmStore
from repro_kit.farm.unit import WORDS, UnitOrder, UnitResult, UnitRules, now
from repro_kit.files import remove_unfinished, write_atomic
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.model.serialize import dumps
from repro_kit.session.strangers.build_unit import read_result, run_unit_file
from repro_kit.session.strangers.repro_run import START_MARGIN
from repro_kit.ui import Ui
from repro_kit.visible import one_line

_TRIES = 3  # times that a unit is given to a worker: its worker may be lost
_POLL = 0.1  # seconds between two looks at running units
_LONGEST = 300  # characters of a note


def take_up(place: FarmPlace, store: FarmStore) -> None:
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

    def run_build(self, line: BuildLine, build: Build, due: Sequence[tuple[FarmCase, DueUnit]]) -> list[UnitResult]:
        """Get a build ready, and run units on it. On a build that does not install no case can run."""
        with self._ui.stage("build"):
            self._ui.progress(f"{line.name} {build.shown}: getting it ready for {len(due)} cases")
            try:
                with line.source.ready(build) as ready:
                    results = self.run_units(line, build, ready, due)
            except UnusableError as error:
                note = f"it does not install: {error}"
                results = [_not_run(case.id, line.name, build.name, unit.attempt, note) for case, unit in due]
                self._record(results)
            self._ui.done(f"{line.name} {build.shown}: {counted(results)}")
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
                self._ui.detail(f"{names[result.case]} on {build.shown}: {result.outcome} {result.note}")
            now = ", ".join(names[each.order.case] for _, each in running)
            self._ui.progress(f"{line.name} {build.shown}: {len(results)} of {len(due)} cases done, running {now}")
            if not ended:
                time.sleep(_POLL)
        return results

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
