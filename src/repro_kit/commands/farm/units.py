"""Run units by an executor, and record each result as soon as it is there: a killed run loses only what was running."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from repro_kit.bisect import Build
from repro_kit.builds.build_source import Ready, UnusableError
from repro_kit.builds.several import BuildLine
from repro_kit.commands.farm.executor import Executor, Submitted
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.errors import ReproKitError
from repro_kit.farm.plan import DueUnit
from repro_kit.farm.store import FarmCase, FarmStore
from repro_kit.farm.unit import UnitOrder, UnitResult
from repro_kit.files import remove_unfinished, write_atomic
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.model.serialize import dumps
from repro_kit.session.strangers.build_unit import read_result, run_unit_file
from repro_kit.ui import Ui

_POLL = 0.1  # seconds between two looks at running units
_MARGIN = 60.0  # seconds that an interpreter with torch may take to start
#: What the tables say of an outcome.
WORDS = {
    RunOutcome.FAILS_ALIKE: "fails",
    RunOutcome.PASSES: "passes",
    RunOutcome.FAILS_OTHERWISE: "fails otherwise",
    RunOutcome.INVALID: "is not valid",
    RunOutcome.CANNOT_TELL: "cannot run",
}


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


class UnitRunner:
    """Runs units, and counts them. `timeout`: seconds of one run of a case that asks for no more."""

    def __init__(self, place: FarmPlace, store: FarmStore, executor: Executor, timeout: float, ui: Ui) -> None:
        self.units = 0
        self._place = place
        self._store = store
        self._executor = executor
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
        running: dict[Submitted, UnitOrder] = {}
        names = {case.id: case.name for case, _ in due}
        for case, unit in due:
            order = self._order(case, line, build, ready, unit)
            path = self._place.orders / f"{order.name}.json"
            write_atomic(path, dumps(order))
            result = self._place.results / f"{order.name}.json"
            running[self._executor.submit(run_unit_file, str(path), str(result))] = order
        results: list[UnitResult] = []
        while running:
            ended = [future for future in running if future.done()]
            for future in ended:
                results.append(self._ended(future, running.pop(future)))
                ended_case = names[results[-1].case]
                self._ui.detail(f"{ended_case} on {build.shown}: {results[-1].outcome} {results[-1].note}")
            self._ui.progress(f"{line.name} {build.shown}: {len(results)} of {len(due)} cases")
            if not ended:
                time.sleep(_POLL)
        return results

    def _ended(self, future: Submitted, order: UnitOrder) -> UnitResult:
        """Take up the result of a unit that has ended."""
        path = self._place.results / f"{order.name}.json"
        try:
            future.result()
            result = read_result(path)
        except ReproKitError as error:
            result = _not_run(order.case, order.line, order.build, order.attempt, str(error))
        self._record([result])
        path.unlink(missing_ok=True)
        (self._place.orders / f"{order.name}.json").unlink(missing_ok=True)
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
            max(self._timeout, (case.facts.limit or 0) + _MARGIN),
            unit.passes,
            unit.failures,
            case.facts.signature,
            hangs=unit.hangs,
        )


def _not_run(case: str, line: str, build: str, attempt: int, note: str) -> UnitResult:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return UnitResult(case, line, build, attempt, RunOutcome.CANNOT_TELL, note=note, at=now)


def counted(results: Sequence[UnitResult]) -> str:
    """How many units had which outcome: ``fails: 3, passes: 2``."""
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{words}: {counts[outcome]}" for outcome, words in WORDS.items() if counts[outcome])
