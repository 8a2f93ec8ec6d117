"""Judge the cases of a farm by their results, record what changed, and show it (`farm status`, `farm untrack`)."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro_kit.commands.farm.place import FarmPlace, named_case
from repro_kit.errors import Exit, UsageError
from repro_kit.reduce.flaky import NO_RUNS, Tally
from repro_kit.regressions.build import Mark
from repro_kit.regressions.groups import SIMILAR, behave_alike, likeness, parted
from repro_kit.regressions.lifecycle import (
    CELLS,
    NOT_RUN_YET,
    Judged,
    Standing,
    State,
    VerdictFlip,
    beginning,
    judge,
    release_table,
    standing_of,
    tally_of,
)
from repro_kit.regressions.release import (
    Attribution,
    Whose,
    is_twin,
    outages,
    twin_line,
    whose,
    with_missing,
    without_twins,
)
from repro_kit.regressions.store import FarmCase, FarmStore, Transition
from repro_kit.regressions.unit import UnitResult, now
from repro_kit.serialize import to_data
from repro_kit.ui import Ui

Results = Mapping[str, Sequence[UnitResult]]  # of a case by line, oldest build first


@dataclass(frozen=True)
class CaseStanding:
    """The standing of a case on every tracked line."""

    standings: tuple[Standing, ...]
    tally: Tally
    marks: Mapping[str, Mark]  # by build, with its line; also of the twins
    began: tuple[Standing, VerdictFlip] | None = None  # where it fails now, and passed before
    attribution: Attribution | None = None  # whose that is

    @property
    def rate(self) -> str:
        """How often a flaky case fails, in words; "" for another case."""
        return f"{self.tally.failed} of {self.tally.runs} runs" if self.tally.flaky else ""


class FarmJudge:
    """Judges the cases of a farm by its lines of builds."""

    def __init__(self, place: FarmPlace, store: FarmStore) -> None:
        self.builds = store.builds()
        self.outages = outages(store.batches())
        self._place = place
        self._store = store
        self._tracked = {line: words for line, words in store.tracked().items() if not is_twin(line)}
        self._busy = store.busy_builds()

    def results(self, case: FarmCase) -> Results:
        """The results of a case, without those of outages, and with those that are missing on the newest builds."""
        seen = self._store.verdicts(case.id, self.outages)
        results: dict[str, Sequence[UnitResult]] = {}
        for line, verdicts in seen.items():
            order = self.builds[line]
            there = [verdicts[build] for build in order if build in verdicts]
            runs = case.original is None and not is_twin(line)
            results[line] = with_missing(line, there, order, self._busy.get(line, ())) if runs else there
        return results

    def standing(self, case: FarmCase, results: Results) -> CaseStanding:
        """Judge a case on each tracked line."""
        own = without_twins(results)
        tally = sum(map(tally_of, own.values()), NO_RUNS)
        lines = sorted(self._tracked)
        standings = tuple(standing_of(line, own.get(line, ()), tally, case.facts.repeats) for line in lines)
        marks = {
            f"{standing.line} {result.build}": mark
            for standing in standings
            for result, mark in zip(own.get(standing.line, ()), standing.marks, strict=True)
            if mark is not None
        }
        marks |= {
            f"{line} {twin.build}": Mark.BAD if twin.fails else Mark.GOOD
            for line, twins in results.items()
            for twin in twins
            if is_twin(line) and (twin.fails or twin.passes)
        }
        flips = ((each, beginning(each, own.get(each.line, ()), tally)) for each in standings)
        began = next(((each, flip) for each, flip in flips if flip), None)
        attribution = began and whose(began[1], self.builds[began[0].line], twins_of(results, began[0].line))
        return CaseStanding(standings, tally, marks, began, attribution)

    def repeat(self, case: FarmCase, standing: CaseStanding) -> str:
        """The commands that run a case on the builds that its state follows from."""
        commands: list[str] = []
        for each in () if case.is_imported else standing.standings:
            ends = [build for flip in each.flips for build in (flip.before.build, flip.after.build)]
            named = ",".join(dict.fromkeys([*ends, *([each.newest.build] if each.newest else [])]))
            if named:
                target = shlex.quote(str(self._place.entry(case.id)))
                options = f" {self._tracked[each.line]}" if self._tracked[each.line] else ""
                commands.append(f"repro-kit verify {target} --on {shlex.quote(named)}{options}")
        return " && ".join(commands)


def judge_all(place: FarmPlace, store: FarmStore) -> list[Transition]:
    """Bring every case into the state that its verdicts show; the changes."""
    cases, farm_judge = store.cases(), FarmJudge(place, store)
    seen = {case.id: farm_judge.standing(case, farm_judge.results(case)) for case in cases}
    originals = _originals(cases, seen)
    names = {case.id: case.name for case in cases}
    changes = []
    at = now()
    with store.writing():
        for case in cases:
            original, why = originals[case.id]
            judged = _attributed(judge(seen[case.id].standings, seen[case.id].tally), seen[case.id].attribution)
            if original is not None:
                judged = Judged(State.DUPLICATE, f"duplicate of {names[original]}: {why}" if why else case.evidence)
            elif why:
                judged = Judged(judged.state, f"{judged.evidence}; no longer a duplicate: {why}")
            if judged.state is case.state and original == case.original:
                store.set_evidence(case.id, judged.evidence)
                continue
            command = farm_judge.repeat(case, seen[case.id])
            change = Transition(case.id, at, case.state, judged.state, judged.evidence, command)
            store.move(change, original)
            changes.append(change)
    return changes


def _attributed(judged: Judged, attribution: Attribution | None) -> Judged:
    """The judgement, and whose the regression is, if a twin says something of that."""
    if attribution is None or attribution.whose is Whose.UNKNOWN:
        return judged
    return Judged(judged.state, f"{judged.evidence}; of {attribution.whose}: {attribution.why}")


def twins_of(results: Results, line: str) -> dict[str, UnitResult]:
    """What a case shows on the stable build, by build of the line."""
    return {twin.build: twin for twin in results.get(twin_line(line), ())}


def alarms_of(changes: Sequence[Transition], before: Mapping[str, FarmCase]) -> list[Transition]:
    """The changes to a case that fails: it was fixed, or it had been run before and had not failed.

    A flaky case that fails again after a lucky stretch is none.
    """
    return [change for change in changes if _is_alarm(change, before[change.case])]


def _is_alarm(change: Transition, before: FarmCase) -> bool:
    fails = change.after in (State.OPEN, State.FLAKY)
    had_run = before.evidence not in ("", NOT_RUN_YET)
    was_failing = before.state in (State.OPEN, State.FLAKY, State.REOPENED)
    return (change.after is State.REOPENED and not was_failing) or (fails and before.state is State.NEW and had_run)


def untrack(place: FarmPlace, line: str, ui: Ui) -> Exit:
    """Ignore a line, and judge the cases anew. Raises UsageError if there is no such line."""
    with place.writing() as store:
        tracked = store.tracked()
        if line not in tracked:
            raise UsageError(f"{line} is none of the tracked lines: {', '.join(tracked) or 'there are none'}.")
        with store.writing():
            store.untrack(line)
        changes = judge_all(place, store)
    ui.print(f"{line} is no longer tracked; {len(changes)} cases changed.")
    ui.result({"line": line, "changes": to_data(changes)})
    return Exit.OK


def _originals(cases: Sequence[FarmCase], seen: Mapping[str, CaseStanding]) -> dict[str, tuple[str | None, str]]:
    """For each case the case that it duplicates (None: it stands alone), and why that changed ("": it did not)."""
    originals: dict[str, tuple[str | None, str]] = {}
    alike: defaultdict[frozenset[str], list[FarmCase]] = defaultdict(list)  # by where they flip
    for case in cases:
        standing = seen[case.id]
        key = _flips(standing)
        difference = parted(standing.marks, seen[case.original].marks) if case.original else ""
        if case.original and not difference:
            further = originals[case.original][0]  # its original may have become a duplicate itself
            originals[case.id] = (further, "through another duplicate") if further else (case.original, "")
            continue
        if key and not difference:
            match = _match(case, alike[key], seen)
            if match is not None:
                originals[case.id] = match
                continue
        originals[case.id] = None, difference
        alike[key].append(case)
    return originals


def _match(case: FarmCase, earlier: Sequence[FarmCase], seen: Mapping[str, CaseStanding]) -> tuple[str, str] | None:
    for other in earlier:
        alike = likeness(case.facts, other.facts)
        behaviour = behave_alike(seen[case.id].marks, seen[other.id].marks)
        if alike.score >= SIMILAR and behaviour:
            return other.id, f"{alike.why}, and {behaviour}"
    return None


def _flips(standing: CaseStanding) -> frozenset[str]:
    return frozenset(f"{each.line} {flip.after.build}" for each in standing.standings for flip in each.flips)


_SHOWN = 50  # cases in the table
_OVER = (State.CLOSED, State.DUPLICATE)


def status(place: FarmPlace, words: Sequence[str], ui: Ui, *, states: Sequence[str] = ()) -> Exit:
    """Show the farm, or the cases that `words` name. Runs nothing."""
    with place.reading() as store:
        cases = store.cases()
        if words:
            shown = [_one(place, store, named_case(cases, word), ui) for word in words]
            ui.result({"cases": shown})
            return Exit.OK
    names = {case.id: case.name for case in cases}
    counts = Counter(case.state for case in cases)
    wanted = [case for case in cases if (case.state in states if states else case.state not in _OVER)]
    order = list(State)
    wanted.sort(key=lambda case: order.index(case.state))
    rows = [(case.name, case.state, case.since[:10], case.facts.told, case.evidence) for case in wanted[:_SHOWN]]
    ui.table("", ("case", "state", "since", "failure", "evidence"), rows)
    if len(wanted) > _SHOWN:
        ui.note(f"{len(wanted) - _SHOWN} more are not shown; --state STATE, --json and `farm report` show them.")
    ui.print(", ".join(f"{state}: {counts[state]}" for state in State if counts[state]) or "The farm is empty.")
    ui.result(
        {
            "counts": {state: counts[state] for state in State},
            "cases": [{**case_data(case), "original": names.get(case.original or "")} for case in wanted],
        }
    )
    return Exit.OK


def case_data(case: FarmCase) -> dict[str, Any]:
    """The fields of a case in JSON."""
    return {
        "name": case.name,
        "id": case.id,
        "state": case.state,
        "since": case.since,
        "added": case.added,
        "failure": case.facts.told,
        "layer": case.facts.layer,
        "operator": case.facts.operator or None,
        "evidence": case.evidence,
        "original": case.original,
        "issue": case.issue or None,
    }


def _one(place: FarmPlace, store: FarmStore, case: FarmCase, ui: Ui) -> dict[str, Any]:
    """Show one case: its state, its verdicts, its history."""
    judging = FarmJudge(place, store)
    results = judging.results(case)
    standing = judging.standing(case, results)
    again, rate = judging.repeat(case, standing), standing.rate
    lines = [("state", f"{case.state} since {case.since}"), ("failure", case.facts.told), ("why", case.evidence)]
    lines += [("rate", rate)] if rate else []
    lines += [("issue", case.issue)] if case.issue else []
    lines += [] if case.is_imported else [("files", str(place.entry(case.id)))]
    lines += [("from", case.source)]
    lines += [("repeat", again)] if again else []
    ui.panel(case.name, lines)
    tables = []
    for line, of_line in without_twins(results).items():
        table, twins = release_table(of_line, case.facts.repeats), twins_of(results, line)
        columns: Sequence[str] = table.columns
        rows: Sequence[Sequence[str]] = table.rows
        if twins:
            beside = [CELLS[twins[each.build].outcome] if each.build in twins else "" for each in of_line]
            columns = (*table.columns[:2], "stable build", *table.columns[2:])
            rows = [(*row[:2], twin, *row[2:]) for row, twin in zip(table.rows, beside, strict=True)]
        ui.table(line, columns, rows)
        ui.print(table.sentence)
        tables.append({"line": line, **table.as_json()})
    history = store.transitions(case.id)
    ui.table("history", ("when", "was", "became", "evidence"), [(c.at, c.before, c.after, c.evidence) for c in history])
    return {**case_data(case), "rate": rate or None, "repeat": again, "tables": tables, "history": to_data(history)}
