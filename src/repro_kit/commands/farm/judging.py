"""Judge the cases of a farm by their verdicts, and record what changed."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro_kit.bisect.build import Mark
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.errors import Exit, UsageError
from repro_kit.farm.grouping import SIMILAR, behave_alike, likeness, parted
from repro_kit.farm.lifecycle import Judged, State, judge
from repro_kit.farm.standing import Standing, standing_of, tally_of
from repro_kit.farm.store import FarmCase, FarmStore, Transition
from repro_kit.farm.unit import UnitResult, now
from repro_kit.model.serialize import to_data
from repro_kit.reduce.flaky import NO_RUNS, Tally
from repro_kit.ui import Ui

Results = Mapping[str, Sequence[UnitResult]]  # of a case by line, oldest build first


@dataclass(frozen=True)
class CaseStanding:
    """The standing of a case on every tracked line."""

    standings: tuple[Standing, ...]
    tally: Tally
    marks: Mapping[str, Mark]  # by build, with its line

    @property
    def rate(self) -> str:
        """How often a flaky case fails, in words; "" for another case."""
        return f"{self.tally.failed} of {self.tally.runs} runs" if self.tally.flaky else ""


class FarmJudge:
    """Judges the cases of a farm by its lines of builds."""

    def __init__(self, place: FarmPlace, store: FarmStore) -> None:
        self._place = place
        self._store = store
        self._builds = store.builds()
        self._tracked = store.tracked()

    def results(self, case: FarmCase) -> Results:
        """The results of a case."""
        seen = self._store.verdicts(case.id)
        return {line: [seen[line][build] for build in self._builds[line] if build in seen[line]] for line in seen}

    def standing(self, case: FarmCase, results: Results) -> CaseStanding:
        """Judge a case on each tracked line."""
        tally = sum(map(tally_of, results.values()), NO_RUNS)
        lines = sorted(self._tracked)
        standings = tuple(standing_of(line, results.get(line, ()), tally, case.facts.repeats) for line in lines)
        marks = {
            f"{standing.line} {result.build}": mark
            for standing in standings
            for result, mark in zip(results.get(standing.line, ()), standing.marks, strict=True)
            if mark is not None
        }
        return CaseStanding(standings, tally, marks)

    def repeat(self, case: FarmCase, standing: CaseStanding) -> str:
        """The commands that run a case on the builds that its state follows from."""
        commands = []
        for each in standing.standings:
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
            judged = judge(seen[case.id].standings, seen[case.id].tally)
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
