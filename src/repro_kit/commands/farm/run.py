"""`farm run`: run the cases on builds, record the results, and judge the cases. Known results are not made again."""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro_kit.builds.several import BuildChoice, BuildLine, lines_of
from repro_kit.commands.farm.place import FarmPlace, named_case
from repro_kit.commands.farm.status import judge_all
from repro_kit.commands.farm.units import UnitRunner, Workers, import_results, no_alarm, open_workers
from repro_kit.errors import Exit, UsageError
from repro_kit.reduce.flaky import NO_RUNS
from repro_kit.regressions.build import Build
from repro_kit.regressions.lifecycle import State, tally_of
from repro_kit.regressions.plan import DueUnit, LinePlan, due_units, shard
from repro_kit.regressions.store import FarmCase, FarmStore, Transition
from repro_kit.repro_run.untrusted import REPRO
from repro_kit.serialize import to_data
from repro_kit.ui import Ui

_OVER = (State.FIXED, State.CLOSED)


@dataclass(frozen=True)
class FarmRun:
    """What is run, and how."""

    choice: BuildChoice
    cases: tuple[str, ...] = ()  # names or ids; none: all
    executor: str = "local"
    workers: int | None = None  # units at the same time; None: as the executor has it
    timeout: float = 600.0  # seconds for one run
    bisect: bool = True
    retry: bool = False
    shard: tuple[int, int] | None = None  # number and count


def run(place: FarmPlace, request: FarmRun, ui: Ui) -> Exit:
    """Run what is due; FAILED when a case newly fails. Raises ReproKitError when nothing can be run."""
    with place.reading() as store:
        count = len(_selected(store, request))
    if not count:
        raise UsageError(f"The farm {place.directory} has no case to run; `repro-kit farm add BUNDLE` adds one.")
    if not ui.confirm(f"Run the repro.py of {count} cases in {place.directory} on each build, with your rights?"):
        raise UsageError("Nothing was run; give --yes if you trust the cases of the farm.")
    with (
        no_alarm(),
        place.writing() as store,
        open_workers(request.executor, request.workers, place.logs) as workers,
    ):
        import_results(place, store)
        shutil.rmtree(place.environments, ignore_errors=True)  # environments that a killed run left
        with ui.stage("builds"):
            lines = lines_of(request.choice, place.environments)
            ui.done("; ".join(f"{line.name}: {', '.join(build.shown for build in line.chosen)}" for line in lines))
        before = {case.id: case for case in store.cases()}
        farm_run = _FarmRun(place, store, request, ui, workers)
        try:
            changes = farm_run.run(lines)
        except KeyboardInterrupt:
            kept = farm_run.runner.units
            ui.warn(f"Interrupted; the {kept} results that were complete are kept, and the same command goes on.")
            raise
    return _show(changes, before, farm_run.runner.units, ui)


def _show(changes: Sequence[Transition], before: Mapping[str, FarmCase], units: int, ui: Ui) -> Exit:
    rows = [(before[change.case].name, change.before, change.after, change.evidence) for change in changes]
    if rows:
        ui.table("", ("case", "was", "is", "evidence"), rows)
    alarms = sum(_is_alarm(change, before[change.case]) for change in changes)
    ui.print(f"{units} units run; {len(changes)} cases changed{f', {alarms} newly fail' if alarms else ''}.")
    ends = Exit.FAILED if alarms else Exit.OK
    ui.result({"units": units, "changes": to_data(changes), "exit": int(ends)})
    return ends


def _is_alarm(change: Transition, before: FarmCase) -> bool:
    """Whether a case fails that was fixed, or that was run in earlier runs and had not failed."""
    fails = change.after in (State.OPEN, State.FLAKY)
    return change.after is State.REOPENED or (fails and before.state is State.NEW and bool(before.evidence))


def _selected(store: FarmStore, request: FarmRun) -> list[FarmCase]:
    """The cases to run. A duplicate runs only when its original no longer fails: then it must be gone as well."""
    cases = store.cases()
    states = {case.id: case.state for case in cases}
    chosen = [named_case(cases, word) for word in request.cases] or [
        case for case in cases if case.original is None or states[case.original] in _OVER
    ]
    if request.shard is None:
        return chosen
    mine = shard([case.original or case.id for case in chosen], store.seconds(), *request.shard)
    return [case for case in chosen if (case.original or case.id) in mine]


class _FarmRun:
    """One run over the lines."""

    def __init__(self, place: FarmPlace, store: FarmStore, request: FarmRun, ui: Ui, workers: Workers) -> None:
        self.runner = UnitRunner(place, store, workers, request.timeout, ui)
        self._place = place
        self._store = store
        self._request = request
        self._ui = ui

    def run(self, lines: Sequence[BuildLine]) -> list[Transition]:
        """Run all that is due on the lines, and judge the cases; the changes."""
        changes: list[Transition] = []
        seen: set[str] = set()
        try:
            while True:
                cases = [case for case in _selected(self._store, self._request) if self._is_whole(case)]
                if {case.id for case in cases} <= seen:
                    return changes
                seen |= {case.id for case in cases}  # judging adds duplicates whose originals are fixed
                for line in lines:
                    self._run_line(line, cases)
                changes += judge_all(self._place, self._store)
        finally:
            for line in lines:
                line.source.close()

    def _is_whole(self, case: FarmCase) -> bool:
        whole = (self._place.entry(case.id) / REPRO).is_file()
        if not whole:
            self._ui.warn(f"{case.name} is left out: its files in {self._place.entry(case.id)} are gone; add it again.")
        return whole

    def _run_line(self, line: BuildLine, cases: Sequence[FarmCase]) -> None:
        with self._store.writing():
            self._store.list_builds(line.name, line.words, line.builds)
        order = self._store.builds()[line.name]
        builds = {build.name: build for build in line.builds}
        mine, elsewhere = {}, {}
        for case in cases:
            verdicts = self._store.verdicts(case.id)
            mine[case.id] = verdicts.pop(line.name, {})
            elsewhere[case.id] = sum((tally_of(list(other.values())) for other in verdicts.values()), NO_RUNS)
        chosen = {build.name for build in line.chosen}
        retried: defaultdict[str, set[str]] = defaultdict(set)
        while True:
            due: defaultdict[str, list[tuple[FarmCase, DueUnit]]] = defaultdict(list)
            for case in cases:
                there = [name for name in order if name in builds or name in mine[case.id]]
                retry = chosen - retried[case.id] if self._request.retry else ()
                plan = LinePlan(line.name, there, chosen, self._request.bisect, retry)
                tried = [mine[case.id][name] for name in there if name in mine[case.id]]
                tally = tally_of(tried) + elsewhere[case.id]
                for unit in due_units(plan, mine[case.id], tally, case.facts.repeats):
                    due[unit.build].append((case, unit))
            wanted = [name for name in order if name in due and name in builds]
            if not wanted:
                return
            if len(wanted) > 1:
                self._fetch(line, builds[wanted[1]])
            for result in self.runner.run_build(line, builds[wanted[0]], due[wanted[0]]):
                before = mine[result.case].get(result.build)
                retried[result.case].add(result.build)
                mine[result.case][result.build] = before + result if before else result

    def _fetch(self, line: BuildLine, build: Build) -> None:
        """Download the build after this one meanwhile."""
        threading.Thread(target=line.source.fetch, args=(build,), name=f"fetch {build.name}", daemon=True).start()


def parse_shard(text: str) -> tuple[int, int]:
    """``2/4`` as (2, 4). Raises UsageError."""
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise UsageError(f"--shard takes NUMBER/COUNT like 1/4, not {text!r}.")
    return int(number), int(of)
