"""Judge the cases of a farm by their verdicts, and record what changed."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from repro_kit.bisect.build import Mark
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.errors import Exit, UsageError
from repro_kit.farm.grouping import SIMILAR, behave_alike, likeness, parted
from repro_kit.farm.lifecycle import Judged, State, judge
from repro_kit.farm.standing import Standing, standing_of, tally_of
from repro_kit.farm.store import FarmCase, FarmStore, Transition
from repro_kit.farm.unit import UnitResult
from repro_kit.model.serialize import to_data
from repro_kit.reduce.flaky import NO_RUNS, Tally
from repro_kit.ui import Ui

Verdicts = Mapping[str, Mapping[str, UnitResult]]  # by line and build
Builds = Mapping[str, Sequence[str]]  # by line, oldest first


@dataclass(frozen=True)
class CaseStanding:
    """Where a case stands on every tracked line."""

    standings: tuple[Standing, ...]
    tally: Tally
    marks: Mapping[str, Mark]  # by build, with its line


def standing_of_case(case: FarmCase, verdicts: Verdicts, builds: Builds, tracked: Sequence[str]) -> CaseStanding:
    """Judge a case on each tracked line."""
    ordered = {line: [verdicts[line][build] for build in builds[line] if build in verdicts[line]] for line in verdicts}
    tally = sum((tally_of(line_verdicts) for line_verdicts in ordered.values()), NO_RUNS)
    standings = tuple(standing_of(line, ordered.get(line, ()), tally, case.facts.repeats) for line in tracked)
    marks = {
        f"{standing.line} {verdict.build}": mark
        for standing in standings
        for verdict, mark in zip(ordered.get(standing.line, ()), standing.marks, strict=True)
        if mark is not None
    }
    return CaseStanding(standings, tally, marks)


def judge_all(place: FarmPlace, store: FarmStore) -> list[Transition]:
    """Bring every case into the state that its verdicts show; the changes."""
    cases, builds, tracked = store.cases(), store.builds(), store.tracked()
    lines = sorted(tracked)
    seen = {case.id: standing_of_case(case, store.verdicts(case.id), builds, lines) for case in cases}
    originals = _originals(cases, seen)
    names = {case.id: case.name for case in cases}
    changes = []
    now = datetime.now(UTC).isoformat(timespec="seconds")
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
            command = repeat_command(place, case.id, seen[case.id].standings, tracked)
            change = Transition(case.id, now, case.state, judged.state, judged.evidence, command)
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


def repeat_command(place: FarmPlace, id: str, standings: Sequence[Standing], words: Mapping[str, str]) -> str:
    """The commands that run a case on the builds that its state follows from. `words`: of each line."""
    commands = []
    for standing in standings:
        ends = [build for flip in standing.flips for build in (flip.before.build, flip.after.build)]
        newest = [standing.newest.build] if standing.newest else []
        named = ",".join(dict.fromkeys([*ends, *newest]))
        if named:
            options = f" {words[standing.line]}" if words.get(standing.line) else ""
            commands.append(f"repro-kit verify {shlex.quote(str(place.entry(id)))} --on {shlex.quote(named)}{options}")
    return " && ".join(commands)


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
