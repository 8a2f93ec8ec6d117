"""`nightly`: run a folder on the newest build, in a farm: what changed since the last night, bisected."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from repro_kit.builds.build_source import Ready, UnusableError
from repro_kit.builds.catalog import PackageEnds
from repro_kit.builds.install import file_name
from repro_kit.builds.interpreters import find_python
from repro_kit.builds.several import BuildChoice, BuildLine, lines_of
from repro_kit.builds.web import without_credentials
from repro_kit.bundle.pages.templates import render
from repro_kit.commands.bisect.answer import as_markdown, named_sides
from repro_kit.commands.bisect.command import search
from repro_kit.commands.bisect.plan import BisectRequest
from repro_kit.commands.bisect.subject import build_subject
from repro_kit.commands.farm import told
from repro_kit.commands.farm.add import add_target, subjects_in
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.status import judge_all
from repro_kit.commands.farm.units import LocalExecutor, UnitRunner, Workers, import_results, no_alarm
from repro_kit.errors import CannotRunError, Exit, ReproKitError, UsageError
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.files import read_plain, write_atomic
from repro_kit.regressions.build import Build, Judgement, Mark
from repro_kit.regressions.news import (
    ALARMS,
    TURNS,
    Group,
    LastNight,
    News,
    NewsEvent,
    compare,
    grouped,
    remembered,
    settled,
)
from repro_kit.regressions.plan import DueUnit
from repro_kit.regressions.release import outages
from repro_kit.regressions.store import FarmCase, FarmStore
from repro_kit.regressions.unit import OF_MARKS, UNDECIDED, WORDS, UnitResult
from repro_kit.runner.places import instead_of
from repro_kit.serialize import from_data
from repro_kit.ui import Ui

_OLD_MEMORY = "state.json"  # of versions that kept the last night beside the farm
_MOST_BYTES = 64 << 20  # size limit of that file


@dataclass(frozen=True)
class NightlyRequest:
    """The folder of cases, the builds to run them on, and how."""

    folder: Path
    directory: Path  # the farm, with the summaries
    choice: BuildChoice  # of one build
    timeout: float = 600.0
    bisect: bool = True
    notify: str = ""  # the user's command that gets the result


@dataclass(frozen=True)
class NightlySummary:
    """The result of one run over the folder."""

    build: Build
    before: str | None  # the build of the run before
    groups: tuple[Group, ...]
    made: str  # when, ISO 8601

    @property
    def alarms(self) -> list[Group]:
        """The groups that a person must look at."""
        return [group for group in self.groups if group.event in ALARMS]

    @property
    def what(self) -> str:
        """The run in a word or two, as `farm run` says it."""
        if self.alarms:
            return told.REGRESSION
        if all(group.event is NewsEvent.CANNOT_TELL for group in self.groups):
            return told.NO_VERDICTS
        if any(group.event in TURNS for group in self.groups):
            return told.CHANGES
        return told.NO_NEW_BUILD if self.before == self.build.name else told.NOTHING_NEW

    @property
    def exit(self) -> Exit:
        """The exit code: only a regression is a failure, and only a night with verdicts is a success."""
        return {told.REGRESSION: Exit.FAILED, told.NO_VERDICTS: Exit.CANNOT_RUN}.get(self.what, Exit.OK)

    @property
    def sentence(self) -> str:
        """The run in one sentence."""
        counts = {event: sum(len(group.news) for group in self.groups if group.event is event) for event in NewsEvent}
        parts = [f"{event}: {count}" for event, count in counts.items() if count]
        old = " (no new build since the last run)" if self.before == self.build.name else ""
        return f"{self.build.shown}{old}; {', '.join(parts)}."


def nightly(request: NightlyRequest, ui: Ui) -> Exit:
    """Run the folder's cases on the newest build, write the summaries, and return FAILED when a case newly fails.

    The directory of the request is a farm, which keeps every result. Raises ReproKitError when there is nothing to run,
    or the build cannot be installed.
    """
    names = list(subjects_in(request.folder))
    if not names:
        raise UsageError(f"{request.folder} holds no case, bundle or unpacked bundle.")
    if request.notify:
        told.words_of(request.notify)
    question = f"Run the repro.py of these {len(names)} on each new build, with your rights: {', '.join(names)}?"
    if not ui.confirm(question):
        raise UsageError("Nothing was run; give --yes if you trust the contents of the folder.")
    place = FarmPlace(request.directory)
    with told.told_of_no_verdicts(request.notify, ui), place.writing(create=True) as store:
        before, last = _last_night(store, request.directory)
        import_results(place, store)
        cases, damaged = _added(place, store, names, request, ui)
        night = _Night(place, store, request, before, last, ui)
        build, results = night.run(cases)
        results = _without_outage(store, night, results) | damaged
        groups = grouped(compare(last, results))
        if request.bisect:
            groups = [_bisected(group, night, cases) for group in groups]
        judge_all(place, store)
        made = datetime.now(UTC).isoformat(timespec="minutes")
        summary = NightlySummary(build, before, tuple(groups), made)
        _write(summary, request.directory)
        with store.writing():
            store.end_night(build.name, remembered(last, results))
    _show(summary, request, ui)
    return summary.exit


def _without_outage(store: FarmStore, night: _Night, results: Mapping[str, UnitResult]) -> dict[str, UnitResult]:
    """The results; in an outage what does not end is no hang, and nothing is known of it."""
    batches = [batch for batch in outages(store.batches()).values() if (batch.line, batch.build) == night.place_of]
    if not batches:
        return dict(results)
    night.ui.warn(f"{batches[-1].sentence}.")
    note = "many cases show nothing at once: no verdict"
    return {
        name: replace(result, outcome=RunOutcome.CANNOT_TELL, note=result.note or note, failure=None)
        if result.failure and result.failure.kind.policy.hangs
        else result
        for name, result in results.items()
    }


def _last_night(store: FarmStore, directory: Path) -> tuple[str | None, LastNight]:
    """The build of the last night, and the last result of each case. Raises ReproKitError for a damaged old file.

    Earlier versions kept them in a file. It is read until the first night that the farm remembers.
    """
    before, last = store.last_night()
    path = directory / _OLD_MEMORY
    if before is not None or not path.is_file():
        return before, last
    try:
        data = orjson.loads(read_plain(path, _MOST_BYTES))
        return data.get("build"), {name: _old_result(each) for name, each in data.get("cases", {}).items()}
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged; remove it to start anew.") from error


def _old_result(data: Mapping[str, Any]) -> UnitResult:
    failure = from_data(data["signature"], Signature) if data.get("signature") else None
    return UnitResult(data["build"], RunOutcome(data["state"]), failure=failure)


def _added(
    place: FarmPlace, store: FarmStore, names: Sequence[str], request: NightlyRequest, ui: Ui
) -> tuple[dict[str, FarmCase], dict[str, UnitResult]]:
    """Take the subjects into the farm: cases by name, and results of those that cannot be opened."""
    cases: dict[str, FarmCase] = {}
    damaged: dict[str, UnitResult] = {}
    for name in names:
        try:
            case = add_target(place, store, request.folder / name).case
            assert case is not None  # None is for a case without a bundle, which is not a subject
            cases[name] = case
        except ReproKitError as error:
            ui.warn(f"{name} is left out: {error}")
            damaged[name] = UnitResult("", RunOutcome.CANNOT_TELL, note=str(error))
    if not cases:
        raise UsageError(f"Nothing in {request.folder} can be run: {next(iter(damaged.values())).note}")
    return cases, damaged


class _Night:
    """One run over the cases. A changed result is repeated, since a flaky failure is not news."""

    def __init__(
        self,
        place: FarmPlace,
        store: FarmStore,
        request: NightlyRequest,
        before: str | None,
        last: LastNight,
        ui: Ui,
    ) -> None:
        self.request = request
        self.ui = ui
        self.store = store
        self.build = ""
        self._line = ""
        self._place = place
        self._before = before
        self._last = last
        self._runner = UnitRunner(place, store, Workers(LocalExecutor(), 1), request.timeout, ui)
        self._units: dict[str, list[UnitResult]] = {}  # of this night, by case

    @property
    def place_of(self) -> tuple[str, str]:
        """The line and the build of the night."""
        return self._line, self.build

    def run(self, cases: Mapping[str, FarmCase]) -> tuple[Build, dict[str, UnitResult]]:
        """Run every case on the build of the request; the results by name."""
        choice, ui = self.request.choice, self.ui
        shutil.rmtree(self._place.environments, ignore_errors=True)  # environments that a killed run left
        with ui.stage("build"), no_alarm():
            (line,) = lines_of(choice, self._place.environments)
            build = line.chosen[-1]
            ui.progress(f"installing {build.shown}")
            self.build, self._line = build.name, line.name
            with self.store.writing():
                self.store.list_builds(line.name, line.words, line.builds)
            try:
                with line.source.ready(build) as ready:
                    ui.done(f"{choice.package} {build.shown}")
                    return build, self._run_cases(cases, line, build, ready)
            except UnusableError as error:
                raise CannotRunError(f"{choice.package} {build.shown} does not install: {error}.") from error
            finally:
                line.source.close()

    def _run_cases(
        self, cases: Mapping[str, FarmCase], line: BuildLine, build: Build, ready: Ready
    ) -> dict[str, UnitResult]:
        results: dict[str, UnitResult] = {}
        for name, case in cases.items():
            with self.ui.stage("case"):
                self.ui.progress(name)
                result = results[name] = self._run_case(name, case, line, build, ready)
                shown = [result.failure.summary() if result.failure else result.note, result.seen]
                words = "; ".join(filter(None, shown))
                self.ui.done(f"{name}: {WORDS[result.outcome]}{f' ({words})' if words else ''}")
        return results

    def _run_case(self, name: str, case: FarmCase, line: BuildLine, build: Build, ready: Ready) -> UnitResult:
        """Run a case until its result is settled. Two names of the same files are one case, and share its runs."""
        earlier = [unit for unit in self.store.units(case.id) if (unit.line, unit.build) == (line.name, build.name)]
        if case.id not in self._units:
            killed = self._before != build.name  # the last run on this build was killed, and is continued
            self._units[case.id] = list(earlier) if killed else []
        units, attempt, before = self._units[case.id], len(earlier), self._last.get(name)
        while (result := settled(before, [_of_night(case, unit) for unit in units])) is None:
            due = DueUnit(build.name, 1, 1, attempt, hangs=before is not None)
            units += self._runner.run_units(line, build, ready, [(case, due)])
            attempt += 1
        return result

    def keep(self, case: FarmCase, signature: Signature | None, judgements: Iterable[Judgement]) -> None:
        """Record what a bisection has shown of a case, if it has looked for the failure that the case is about."""
        if case.facts.signature not in (None, signature):
            return
        run = {unit.build for unit in self.store.units(case.id) if unit.line == self._line}
        with self.store.writing():
            self.store.record(
                _as_unit(case, self._line, judgement) for judgement in judgements if judgement.build not in run
            )


def _of_night(case: FarmCase, unit: UnitResult) -> UnitResult:
    """A result as `compare` takes it: with its failure, even if that is the expected one."""
    outcome = RunOutcome.CANNOT_TELL if unit.outcome in UNDECIDED else unit.outcome
    failure = unit.failure or (case.facts.signature if outcome is RunOutcome.FAILS_ALIKE else None)
    return replace(unit, outcome=outcome, failure=failure, seen="")


def _as_unit(case: FarmCase, line: str, judgement: Judgement) -> UnitResult:
    """The judgement of a bisection on a build, as a unit."""
    skipped = judgement.mark is Mark.SKIP
    return UnitResult(
        judgement.build,
        OF_MARKS[judgement.mark],
        0 if skipped else judgement.failures,
        0 if skipped else judgement.runs - judgement.failures,
        judgement.reason if skipped else "",
        judgement.oracle_seconds,
        at=judgement.at,
        case=case.id,
        line=line,
    )


def _bisected(group: Group, night: _Night, cases: Mapping[str, FarmCase]) -> Group:
    """Bisect the first case of the group, from the last build that was judged to this build, and add the answer.

    The search is that of `bisect`, not that of `farm run`: it also finds the build since which a case fails in another
    way, and the commits between two builds. The farm gets its results, if they are about the failure of the case.
    """
    first, request = group.news[0], night.request
    if group.event not in TURNS or first.since is None or first.since.build == night.build:
        return group
    fixed = group.event is NewsEvent.FIXED
    good, bad = (night.build, first.since.build) if fixed else (first.since.build, night.build)
    directory = request.directory / "bisect" / file_name(f"{first.name}-{night.build}-{group.event.name.lower()}")
    signature = first.since.failure if fixed else first.result.failure
    again = bisect_command(request, first, good=good, bad=bad)
    ends = PackageEnds(request.choice.package, good, bad)
    bisection = BisectRequest(
        (str(request.folder / first.name),),
        False,
        again,
        (ends,),
        replace(request.choice.selection, pythons=(find_python(request.choice.python, Path.cwd(), os.environ),)),
        find_fix=fixed,
        timeout=request.timeout,
        others=Mark.GOOD if group.event is NewsEvent.CHANGED else Mark.SKIP,
    )
    trusting = replace(night.ui, yes=True)
    try:
        with build_subject(bisection.words, is_command=False, timeout=request.timeout, ui=trusting) as subject:
            report = search(ends, replace(subject, signature=signature), directory, bisection, night.ui)
    except ReproKitError as error:
        return replace(group, bisected=f"The change could not be bisected: {error}")
    finally:
        shutil.rmtree(instead_of(directory / "envs"), ignore_errors=True)
    night.keep(cases[first.name], signature, report.state.current.values())
    facts = [(name, " ".join(filter(None, [side.build.shown, side.commit]))) for name, side in named_sides(report)]
    facts += [("commits between", report.compare)] if report.compare else []
    facts += [("to repeat it", again)] if again else []
    return replace(group, bisected=report.sentence, answer=as_markdown(report), facts=tuple(facts))


def bisect_command(request: NightlyRequest, news: News, *, good: str, bad: str) -> str:
    """Return the bisection as a command line; "" for a changed failure, which `bisect` cannot search for."""
    if news.event is NewsEvent.CHANGED:
        return ""
    selection = request.choice.selection
    words = ["repro-kit", "bisect", str(request.folder / news.name), "--package", request.choice.package]
    words += ["--nightly", selection.nightly] if selection.nightly else []
    words += ["--index-url", selection.index] if selection.index else []
    words += ["--wheels", str(selection.wheels)] if selection.wheels else []
    words += [word for package in selection.packages for word in ("--with", package)]
    words += ["--python", request.choice.python] if request.choice.python else []
    words += ["--timeout", f"{request.timeout:g}"] if request.timeout != NightlyRequest.timeout else []
    if RunOutcome.FAILS_OTHERWISE in (news.result.outcome, news.since.outcome if news.since else None):
        words.append("--any-failure")  # the failure is not the one that the case is about
    words += ["--find-fix"] if news.event is NewsEvent.FIXED else []
    return shlex.join([*map(without_credentials, words), "--good", good, "--bad", bad])


def _write(summary: NightlySummary, directory: Path) -> None:
    for name in ("nightly.md", "nightly.html"):
        text = render(f"{name}.j2", summary=summary, alarms=ALARMS, event=NewsEvent)
        write_atomic(directory / name, text.encode())


def _show(summary: NightlySummary, request: NightlyRequest, ui: Ui) -> None:
    rows = [(group.event, name, group.signature, group.bisected) for group in summary.groups for name in group.names]
    ui.table("", ("since the last run", "case", "failure", "bisected"), rows)
    ui.print(summary.sentence)
    ui.note(f"Written: {request.directory / 'nightly.md'} and {request.directory / 'nightly.html'}")
    data = {
        "news": summary.what,
        "sentence": summary.sentence,
        "build": summary.build.name,
        "before": summary.before,
        "groups": [
            {
                "event": group.event,
                "cases": group.names,
                "signature": group.signature,
                "bisected": group.bisected or None,
            }
            for group in summary.groups
        ],
        "exit": int(summary.exit),
    }
    if request.notify and summary.what not in (told.NOTHING_NEW, told.NO_NEW_BUILD):
        told.notify_by(request.notify, data, ui)
    ui.result(data)
