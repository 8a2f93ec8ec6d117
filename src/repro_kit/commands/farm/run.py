"""`farm run`: run the cases on builds, record the results, and judge the cases. Known results are not made again."""

from __future__ import annotations

import shlex
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from repro_kit.builds.several import BuildChoice, BuildLine, lines_of
from repro_kit.commands.farm.place import FarmPlace, named_case
from repro_kit.commands.farm.status import FarmJudge, judge_all
from repro_kit.commands.farm.told import Before, FarmNews, tell, told_of_no_verdicts, words_of
from repro_kit.commands.farm.units import UnitRunner, Workers, begun_units, import_results, no_alarm, open_workers
from repro_kit.errors import Exit, UsageError
from repro_kit.reduce.flaky import NO_RUNS
from repro_kit.regressions.build import Build
from repro_kit.regressions.lifecycle import State, tally_of
from repro_kit.regressions.plan import DueUnit, LinePlan, due_units, shard
from repro_kit.regressions.release import Whose, outages, twin_line, without_twins
from repro_kit.regressions.store import FarmCase, FarmStore, Transition
from repro_kit.regressions.unit import UnitResult
from repro_kit.repro_run.untrusted import REPRO
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
    twin: str = ""  # the stable build that every case is also run on
    notify: str = ""  # the user's command that gets the result


def run(place: FarmPlace, request: FarmRun, ui: Ui) -> Exit:
    """Run what is due; FAILED when a case newly fails. Raises ReproKitError when nothing can be run."""
    with place.reading() as store:
        count = len(_selected(store, request))
    if not count:
        raise UsageError(f"The farm {place.directory} has no case to run; `repro-kit farm add BUNDLE` adds one.")
    if request.notify:
        words_of(request.notify)
    if not ui.confirm(f"Run the repro.py of {count} cases in {place.directory} on each build, with your rights?"):
        raise UsageError("Nothing was run; give --yes if you trust the cases of the farm.")
    with (
        told_of_no_verdicts(request.notify, ui),
        no_alarm(),
        place.writing() as store,
        open_workers(request.executor, request.workers, place.logs) as workers,
    ):
        import_results(place, store)
        shutil.rmtree(place.environments, ignore_errors=True)  # environments that a killed run left
        with ui.stage("builds"):
            lines = lines_of(request.choice, place.environments)
            ui.done("; ".join(f"{line.name}: {', '.join(build.shown for build in line.chosen)}" for line in lines))
        twin = _twin_builds(place, request) if request.twin else None
        before = Before.of(place, store)
        farm_run = _FarmRun(place, store, request, ui, workers, twin)
        try:
            changes = farm_run.run(lines)
        except KeyboardInterrupt:
            ui.warn(f"Interrupted; {_kept(place, farm_run.runner.units)} kept, and the same command goes on.")
            raise
        news = FarmNews.of(place, store, changes, before, farm_run.runner.units)
    return tell(news, ui, request.notify)


def _kept(place: FarmPlace, units: int) -> str:
    """What an interrupted run keeps, in words: the results of units, and the finished runs of those that are not."""
    runs = sum(begun.runs for begun in begun_units(place))
    return f"{units} results and {runs} finished runs of cases without a result are"


def _twin_builds(place: FarmPlace, request: FarmRun) -> BuildLine:
    """The stable build, as a line of one build. Raises ReproKitError."""
    selection = replace(request.choice.selection, nightly=None, index=None, wheels=None)
    choice = replace(request.choice, on=(request.twin,), releases=None, selection=selection)
    (line,) = lines_of(choice, place.environments / "twin")
    return line


def _selected(store: FarmStore, request: FarmRun) -> list[FarmCase]:
    """The cases to run. A duplicate runs only when its original no longer fails: then it must be gone as well."""
    cases = store.cases()
    states = {case.id: case.state for case in cases}
    chosen = [named_case(cases, word) for word in request.cases] or [
        case for case in cases if case.original is None or states[case.original] in _OVER
    ]
    chosen = [case for case in chosen if not case.is_imported]
    if request.shard is None:
        return chosen
    mine = shard([case.original or case.id for case in chosen], store.seconds(), *request.shard)
    return [case for case in chosen if (case.original or case.id) in mine]


class _FarmRun:
    """One run over the lines."""

    def __init__(
        self,
        place: FarmPlace,
        store: FarmStore,
        request: FarmRun,
        ui: Ui,
        workers: Workers,
        twin: BuildLine | None,
    ) -> None:
        self.runner = UnitRunner(place, store, workers, request.timeout, ui)
        self._place = place
        self._store = store
        self._request = request
        self._ui = ui
        self._twin = twin
        self._retried: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # builds, by line and case
        self._down: set[tuple[str, str]] = set()  # lines and builds of outages that this run has seen

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
                    self._run_line(line, cases, bisect=self._request.bisect and self._twin is None)
                    if self._twin is not None:
                        self._run_twins(line, self._twin, cases)
                        self._run_line(line, self._not_of_the_app(cases), bisect=self._request.bisect)
                changes += judge_all(self._place, self._store)
        finally:
            for line in (*lines, *([self._twin] if self._twin else [])):
                line.source.close()

    def _is_whole(self, case: FarmCase) -> bool:
        whole = (self._place.entry(case.id) / REPRO).is_file()
        if not whole:
            self._ui.warn(f"{case.name} is left out: its files in {self._place.entry(case.id)} are gone; add it again.")
        return whole

    def _not_of_the_app(self, cases: Sequence[FarmCase]) -> list[FarmCase]:
        """The cases without those that fail since the app changed: they fail on every build today."""
        judge = FarmJudge(self._place, self._store)
        found = {case.id: judge.standing(case, judge.results(case)).attribution for case in cases}
        return [case for case in cases if (owner := found[case.id]) is None or owner.whose is not Whose.APP]

    def _run_line(self, line: BuildLine, cases: Sequence[FarmCase], *, bisect: bool) -> None:
        with self._store.writing():
            self._store.list_builds(line.name, line.words, line.builds)
        order = self._store.builds()[line.name]
        builds = {build.name: build for build in line.builds}
        down = outages(self._store.batches())
        again = {build for of_line, build, _ in down if of_line == line.name and build in builds}
        mine: dict[str, dict[str, UnitResult]] = {}
        elsewhere = {}
        for case in cases:
            verdicts = self._store.verdicts(case.id, down)
            mine[case.id] = verdicts.pop(line.name, {})
            others = without_twins({name: list(other.values()) for name, other in verdicts.items()})
            elsewhere[case.id] = sum(map(tally_of, others.values()), NO_RUNS)
        chosen = {build.name for build in line.chosen}
        while True:
            due: defaultdict[str, list[tuple[FarmCase, DueUnit]]] = defaultdict(list)
            shut = {build for of_line, build in self._down if of_line == line.name}
            for case in cases:
                there = [name for name in order if (name in builds or name in mine[case.id]) and name not in shut]
                retry = chosen - self._retried[line.name, case.id] if self._request.retry else ()
                late = self._late(case, line.name, again, mine[case.id])
                plan = LinePlan(line.name, there, {*chosen, *late}, bisect, retry, late)
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
                self._retried[line.name, result.case].add(result.build)
                mine[result.case][result.build] = before + result if before else result
            self._look_for_outage(line, wanted[0], {unit.attempt for _, unit in due[wanted[0]]})

    def _late(
        self, case: FarmCase, line: str, again: Collection[str], known: Mapping[str, UnitResult]
    ) -> dict[str, int]:
        """The builds of outages that a case is to be run on again, and how many of its units are there already."""
        missing = [build for build in again if build not in known]
        if not missing:
            return {}
        made = Counter(unit.build for unit in self._store.units(case.id) if unit.line == line)
        return {build: made[build] for build in missing if made[build]}

    def _look_for_outage(self, line: BuildLine, build: str, attempts: Collection[int]) -> None:
        """Take the results of an outage for none, and leave its build to a later run."""
        down = outages(self._store.batches())
        batch = next((down[key] for attempt in attempts if (key := (line.name, build, attempt)) in down), None)
        if batch is not None:
            self._down.add((line.name, build))
            self._ui.warn(f"{batch.sentence}; a later run repeats them.")

    def _run_twins(self, line: BuildLine, stable: BuildLine, cases: Sequence[FarmCase]) -> None:
        """Run each case on the stable build, once for each build of the line that was chosen."""
        (build,) = stable.chosen
        name = twin_line(line.name)
        with self._store.writing():
            listed = [replace(each, version=build.version) for each in line.builds]
            self._store.list_builds(name, f"--on {shlex.quote(build.name)}", listed, tracked=False)
        for chosen in line.chosen:
            due = []
            for case in cases:
                known = [unit for unit in self._store.units(case.id) if unit.build == chosen.name]
                if any(unit.line == line.name for unit in known) and not any(unit.line == name for unit in known):
                    due.append((case, DueUnit(chosen.name, 1, 1, 0)))
            if due:
                self.runner.run_build(replace(stable, name=name), build, due, recorded=chosen)

    def _fetch(self, line: BuildLine, build: Build) -> None:
        """Download the build after this one meanwhile."""
        threading.Thread(target=line.source.fetch, args=(build,), name=f"fetch {build.name}", daemon=True).start()


def parse_shard(text: str) -> tuple[int, int]:
    """``2/4`` as (2, 4). Raises UsageError."""
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise UsageError(f"--shard takes NUMBER/COUNT like 1/4, not {text!r}.")
    return int(number), int(of)
