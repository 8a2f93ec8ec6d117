"""What a run of the farm has found, and who is told: the words, the JSON, the exit code, and the user's own command."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.status import FarmJudge, alarms_of, judge_all
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.regressions.lifecycle import State
from repro_kit.regressions.metrics import Worse, worse
from repro_kit.regressions.release import Attribution, Batch, BatchKey, is_twin, without_twins
from repro_kit.regressions.store import FarmCase, FarmStore, Transition
from repro_kit.runner import supervised
from repro_kit.serialize import dumps, to_data
from repro_kit.ui import Ui

NOTIFY_SECONDS = 60  # for the user's command
REGRESSION, NO_VERDICTS, CHANGES = "regression", "no verdicts", "changes"
NOTHING_NEW, NO_NEW_BUILD = "nothing new", "no new build"
_SENTENCES = {
    NO_VERDICTS: "The machine or the installation is at fault, and no regression: run it again.",
    NO_NEW_BUILD: "There is no new build: everything is known already, and nothing was run.",
}


@dataclass(frozen=True)
class Before:
    """What is known before a run."""

    cases: Mapping[str, FarmCase]
    outages: frozenset[BatchKey]
    numbers: frozenset[tuple[str, str, str, str]]  # that are worse: the case, the line, the name, and since when

    @classmethod
    def of(cls, place: FarmPlace, store: FarmStore) -> Before:
        """What is known now."""
        judge = FarmJudge(place, store)
        cases = {case.id: case for case in store.cases()}
        numbers = frozenset(_key(each) for each in _numbers(store, judge, cases))
        return cls(cases, frozenset(judge.outages), numbers)


@dataclass(frozen=True)
class FarmNews:
    """What a run, or an import, has found. `units`: how many results are new."""

    units: int
    cases: Mapping[str, FarmCase]
    changes: tuple[Transition, ...] = ()
    alarms: tuple[Transition, ...] = ()
    whose: Mapping[str, Attribution] = field(default_factory=dict)  # by case
    slower: tuple[tuple[FarmCase, str, Worse], ...] = ()  # the case, the line, and the number
    outages: tuple[Batch, ...] = ()

    @classmethod
    def of(cls, place: FarmPlace, store: FarmStore, changes: list[Transition], before: Before, units: int) -> FarmNews:
        """What is new since `before`. The cases are judged."""
        judge = FarmJudge(place, store)
        cases = {case.id: case for case in store.cases()}
        known = {id: before.cases.get(id, case) for id, case in cases.items()}
        found = {id: judge.standing(case, judge.results(case)).attribution for id, case in cases.items()
                 if id in {change.case for change in changes}}  # fmt: skip
        slower = [each for each in _numbers(store, judge, cases) if _key(each) not in before.numbers]
        down = [batch for key, batch in judge.outages.items() if key not in before.outages and not is_twin(batch.line)]
        whose = {id: attribution for id, attribution in found.items() if attribution}
        alarms = tuple(alarms_of(changes, known))
        return cls(units, cases, tuple(changes), alarms, whose, tuple(slower), tuple(down))

    @property
    def silent(self) -> list[str]:
        """The cases that no longer say anything."""
        return [self.cases[change.case].name for change in self.changes if change.after is State.STALE]

    @property
    def what(self) -> str:
        """The run in a word or two."""
        if self.alarms or self.slower:
            return REGRESSION
        if self.outages:
            return NO_VERDICTS
        if self.changes:
            return CHANGES
        return NOTHING_NEW if self.units else NO_NEW_BUILD

    @property
    def exit(self) -> Exit:
        """The exit code: only a regression is a failure."""
        return {REGRESSION: Exit.FAILED, NO_VERDICTS: Exit.CANNOT_RUN}.get(self.what, Exit.OK)

    @property
    def sentence(self) -> str:
        """The run in a sentence or two."""
        parts = [f"{len(self.alarms)} newly fail" if self.alarms else ""]
        parts += [f"{len(self.slower)} numbers are worse" if self.slower else ""]
        parts += [f"{len(self.silent)} no longer say anything" if self.silent else ""]
        more = "".join(f", {part}" for part in parts if part)
        counted = f"{self.units} units run; {len(self.changes)} cases changed{more}."
        return " ".join(filter(None, [counted, _SENTENCES.get(self.what)]))

    def as_json(self) -> dict[str, Any]:
        """The fields of ``--json``, which the user's command gets as well."""
        alarms = {(change.case, change.at) for change in self.alarms}
        changes = [
            {
                **to_data(change),
                "name": self.cases[change.case].name,
                "failure": self.cases[change.case].facts.told,
                "issue": self.cases[change.case].issue or None,
                "newly_fails": (change.case, change.at) in alarms,
                "whose": self.whose[change.case].whose if change.case in self.whose else None,
            }
            for change in self.changes
        ]
        slower = [{"name": case.name, "line": line, **to_data(change)} for case, line, change in self.slower]
        outages = [
            {"line": each.line, "build": each.build, "cases": each.silent, "why": each.note} for each in self.outages
        ]
        return {
            "news": self.what, "sentence": self.sentence, "units": self.units, "changes": changes, "worse": slower,
            "silent": self.silent, "outages": outages, "exit": int(self.exit),
        }  # fmt: skip


def tell(news: FarmNews, ui: Ui, notify: str) -> Exit:
    """Show what was found, and give it to the user's command if there is something to tell; the exit code."""
    rows = []
    for change in news.changes:
        case, attribution = news.cases[change.case], news.whose.get(change.case)
        owner = str(attribution.whose) if attribution else ""
        rows.append((case.name, case.facts.told, change.before, change.after, owner, change.evidence))
    if rows:
        ui.table("", ("case", "what fails", "was", "is", "whose", "evidence"), rows)
    if news.slower:
        found = [(case.name, line, change.sentence) for case, line, change in news.slower]
        ui.table("", ("case", "builds", "worse"), found)
    ui.print(news.sentence)
    if notify and news.what not in (NOTHING_NEW, NO_NEW_BUILD):
        notify_by(notify, news.as_json(), ui)
    ui.result(news.as_json())
    return news.exit


def words_of(notify: str) -> list[str]:
    """The words of the user's command. Raises UsageError for one that cannot be started."""
    try:
        words = shlex.split(notify)
    except ValueError as error:
        raise UsageError(f"--notify takes a command, not {notify!r} ({error}).") from error
    if not words:
        raise UsageError("--notify takes a command; it gets the JSON on its stdin.")
    if shutil.which(words[0]) is None:
        raise UsageError(f"--notify: there is no program {words[0]}; name one on PATH, or give its path.")
    return words


def notify_by(command: str, data: Mapping[str, Any], ui: Ui) -> None:
    """Run the user's command with the JSON on its stdin. It changes nothing of the result if it fails."""
    try:
        done = supervised.run(shlex.split(command), input=dumps(data).decode(), timeout=NOTIFY_SECONDS)
    except subprocess.TimeoutExpired:
        ui.warn(f"Perhaps nobody was told: {command} took longer than {NOTIFY_SECONDS} s, and was ended.")
        return
    except OSError as error:
        ui.warn(f"Nobody was told: {command} did not run ({error.strerror or error}).")
        return
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        ui.warn(f"Perhaps nobody was told: {command} failed ({why}).")


@contextmanager
def told_of_no_verdicts(notify: str, ui: Ui) -> Iterator[None]:
    """Give the user's command the one sentence of a run that ends without a verdict: there is no build, or no network.

    An error that says so is passed on.
    """
    try:
        yield
    except ReproKitError as error:
        if notify and error.exit_code is Exit.CANNOT_RUN:
            notify_by(notify, {"news": NO_VERDICTS, "sentence": str(error), "exit": int(error.exit_code)}, ui)
        raise


def judged(place: FarmPlace, store: FarmStore, before: Before, units: int) -> FarmNews:
    """Judge the cases anew, and say what is new since `before`."""
    return FarmNews.of(place, store, judge_all(place, store), before, units)


def _numbers(store: FarmStore, judge: FarmJudge, cases: Mapping[str, FarmCase]) -> list[tuple[FarmCase, str, Worse]]:
    """The numbers that are worse now than before."""
    found = []
    for id in store.measured():
        for line, verdicts in without_twins(judge.results(cases[id])).items():
            found += [(cases[id], line, change) for change in worse(verdicts)]
    return found


def _key(number: tuple[FarmCase, str, Worse]) -> tuple[str, str, str, str]:
    case, line, change = number
    return case.id, line, change.name, change.after
