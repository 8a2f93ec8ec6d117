"""The whole farm as a static site (`farm report`), as JSON (`farm export`), and several farms as one (`farm merge`)."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from repro_kit.bundle.pages.templates import render
from repro_kit.commands.farm.add import as_duplicate, most_alike
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.status import FarmJudge, case_data, judge_all
from repro_kit.errors import Exit, UsageError
from repro_kit.failure.signature import RunOutcome
from repro_kit.files import no_file
from repro_kit.regressions.build import Build
from repro_kit.regressions.lifecycle import CELLS, State, seen_in_words
from repro_kit.regressions.store import FarmCase, FarmStore, Transition
from repro_kit.regressions.unit import UnitResult, now
from repro_kit.serialize import encoded, to_data
from repro_kit.ui import Ui

_UNIT_FIELDS = ("line", "build", "attempt", "outcome", "failed", "passed", "note", "seconds", "at")


def export(place: FarmPlace, file: Path | None, ui: Ui) -> Exit:
    """Print the whole farm as JSON, or write it to `file`."""
    with place.reading() as store:
        if file is None:
            for piece in pieces(store):
                ui.data(piece.decode())
        else:
            write_export(store, file)
            ui.note(f"Written: {file}")
    return Exit.OK


def write_export(store: FarmStore, file: Path) -> None:
    """Write the whole farm as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        out.writelines(b"%s\n" % piece for piece in pieces(store))


def pieces(store: FarmStore) -> Iterator[bytes]:
    """One JSON object, in pieces: the lines with their builds, and the cases with their results and changes.

    The results are lists in the order of ``units``, as a farm has hundreds of thousands.
    """
    head = {"schema": 1, "lines": store.builds(), "tracked": sorted(store.tracked()), "units": _UNIT_FIELDS}
    yield encoded(head)[:-1] + b', "cases": ['
    for number, case in enumerate(store.cases()):
        data = {
            **case_data(case),
            "facts": to_data(case.facts),
            "history": [to_data(change) for change in store.transitions(case.id)],
            "units": [[getattr(unit, name) for name in _UNIT_FIELDS] for unit in store.units(case.id)],
        }
        yield (b"," if number else b"") + encoded(data)
    yield b"]}"


def merge(place: FarmPlace, others: Sequence[Path], ui: Ui) -> Exit:
    """Take the cases and the results of other farms into this one, and judge the cases anew. Twice is once."""
    merged = 0
    with place.writing(create=True) as store:
        for directory in others:
            other = FarmPlace(directory.absolute())
            if other.directory == place.directory:
                raise UsageError(f"{directory} is the farm itself; give the farms to merge into it.")
            with other.reading() as theirs:
                merged += _merge(place, store, other, theirs)
        changes = judge_all(place, store)
    ui.print(f"{merged} new units from {len(others)} farms; {len(changes)} cases changed.")
    ui.result({"units": merged, "changes": to_data(changes)})
    return Exit.OK


def _merge(place: FarmPlace, store: FarmStore, other: FarmPlace, theirs: FarmStore) -> int:
    known = {case.id: case for case in store.cases()}
    names = {case.name for case in known.values()}
    for case in theirs.cases():
        if case.id in known:
            if case.issue and not known[case.id].issue:
                with store.writing():
                    store.set_issue(case.id, case.issue)
            continue
        if not place.entry(case.id).is_dir():
            _copy(other.entry(case.id), place.entry(case.id), other.directory)
        name = case.name if case.name not in names else f"{case.name}-{case.id[:8]}"
        names.add(name)
        alike = most_alike(case.facts, store.cases())
        state = State.DUPLICATE if case.original else State.NEW
        added = replace(case, name=name, state=state)
        with store.writing():
            store.add(added)
            if case.original is None and alike is not None and alike[1].same:
                store.move(as_duplicate(place, added, *alike), alike[0].id)
    with store.writing():
        tracked, known_lines = theirs.tracked(), store.builds()
        for line in theirs.builds():
            builds = [Build(name, version, date) for name, version, date in theirs.builds_of(line)]
            store.list_builds(line, tracked.get(line, ""), builds, keep=True)
            if line not in tracked and line not in known_lines:
                store.untrack(line)
        count = 0
        for case in theirs.cases():
            fresh = list(_fresh(list(theirs.units(case.id)), list(store.units(case.id))))
            store.record(fresh)
            count += len(fresh)
    return count


def _copy(source: Path, target: Path, farm: Path) -> None:
    """Copy the files of a case from another farm, without links, and without anything that is not a plain file."""
    if not source.resolve().is_relative_to(farm.resolve()):
        raise UsageError(f"{source} leads out of the farm {farm}; it is not merged.")

    def left_out(folder: str, names: list[str]) -> list[str]:
        paths = [Path(folder, name) for name in names]
        return [path.name for path in paths if path.is_symlink() or no_file(path) not in ("", "a directory")]

    shutil.copytree(source, target, ignore=left_out)


def _fresh(theirs: Sequence[UnitResult], ours: Sequence[UnitResult]) -> Iterator[UnitResult]:
    """The units that are not here yet. A unit made apart with the number of one that is here gets the next number."""
    attempts = {(unit.line, unit.build): unit.attempt + 1 for unit in ours}
    here = {replace(unit, attempt=0) for unit in ours}
    for unit in theirs:
        if replace(unit, attempt=0) in here:
            continue
        key = unit.line, unit.build
        attempt = attempts.get(key, 0)
        attempts[key] = attempt + 1
        yield replace(unit, attempt=attempt)


_FEED = 200  # newest changes in the feed
#: The class of a verdict in the strips.
_CLASSES = {
    RunOutcome.FAILS_ALIKE: "fails",
    RunOutcome.PASSES: "passes",
    RunOutcome.FAILS_OTHERWISE: "other",
    RunOutcome.INVALID: "none",
    RunOutcome.CANNOT_TELL: "none",
}


@dataclass(frozen=True)
class Strip:
    """The verdicts of a case on a line as a drawing: for each class, an SVG path of boxes; `width` in builds."""

    line: str
    width: int
    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class VerdictRow:
    """Neighbouring builds with the same verdict."""

    first: str
    last: str
    builds: int
    cell: str
    seen: str


@dataclass(frozen=True)
class CasePage:
    """What the site says of a case."""

    case: FarmCase
    original: FarmCase | None
    strips: tuple[Strip, ...]
    tables: tuple[tuple[str, tuple[VerdictRow, ...]], ...]
    rate: str
    repeat: str
    history: tuple[Transition, ...]

    @property
    def file(self) -> str:
        """The name of its page."""
        return f"{self.case.id[:16]}.html"


def report(place: FarmPlace, directory: Path | None, ui: Ui) -> Exit:
    """Write the site to `directory` (default: in the farm). The pages load nothing from the network."""
    site = directory or place.directory / "report"
    if site.exists() and any(site.iterdir()) and not (site / "farm.json").is_file():
        raise UsageError(f"{site} holds other files; give a new directory with --output.")
    with ui.stage("report"), place.reading() as store:
        cases, judge = store.cases(), FarmJudge(place, store)
        transitions = store.transitions()
        by_id = {case.id: case for case in cases}
        history: dict[str, list[Transition]] = {case.id: [] for case in cases}
        for change in transitions:
            history[change.case].append(change)
        pages = []
        for case in cases:
            results = judge.results(case)
            standing, lines = judge.standing(case, results), sorted(results.items())
            pages.append(
                CasePage(
                    case,
                    by_id.get(case.original or ""),
                    tuple(strip(line, of_line) for line, of_line in lines),
                    tuple((line, _rows(of_line)) for line, of_line in lines),
                    standing.rate,
                    judge.repeat(case, standing),
                    tuple(reversed(history[case.id])),
                )
            )
        _write(site, pages, transitions, by_id)
        write_export(store, site / "farm.json")
        ui.done(f"{len(pages)} case{'s' * (len(pages) != 1)}: {site / 'index.html'}")
    ui.result({"site": str(site), "cases": len(pages), "exit": int(Exit.OK)})
    return Exit.OK


def strip(line: str, verdicts: Sequence[UnitResult]) -> Strip:
    """Draw a strip: neighbouring builds of one class are one box."""
    paths: dict[str, str] = {}
    at = 0
    for name, members in groupby(verdicts, lambda verdict: _CLASSES[verdict.outcome]):
        width = len(list(members))
        paths[name] = paths.get(name, "") + f"M{at} 0h{width}v1h-{width}z"
        at += width
    return Strip(line, at, tuple(paths.items()))


def _rows(verdicts: Sequence[UnitResult]) -> tuple[VerdictRow, ...]:
    rows = []
    for (outcome, seen), group in groupby(verdicts, lambda verdict: (verdict.outcome, seen_in_words(verdict))):
        members = list(group)
        rows.append(VerdictRow(members[0].build, members[-1].build, len(members), CELLS[outcome], seen))
    return tuple(rows)


def _write(
    site: Path, pages: Sequence[CasePage], transitions: Sequence[Transition], by_id: Mapping[str, FarmCase]
) -> None:
    order = list(State)
    pages = sorted(pages, key=lambda page: order.index(page.case.state))
    made = now()
    last = transitions[-1].at[:10] if transitions else ""
    tonight = [change for change in transitions if last and change.at.startswith(last)]
    index = render(
        "farm.html.j2",
        pages=pages,
        counts=Counter(page.case.state for page in pages),
        states=order,
        layers=sorted({page.case.facts.layer for page in pages if page.case.facts.layer}),
        operators=sorted({page.case.facts.operator for page in pages if page.case.facts.operator}),
        tonight=tonight[::-1],
        day=last,
        cases=by_id,
        made=made,
    )
    (site / "cases").mkdir(parents=True, exist_ok=True)
    (site / "index.html").write_text(index, encoding="utf-8")
    newest = transitions[: -_FEED - 1 : -1]
    feed = render("farm.atom.j2", changes=newest, cases=by_id, made=transitions[-1].at if transitions else made)
    (site / "feed.atom").write_text(feed, encoding="utf-8")
    for page in pages:
        (site / "cases" / page.file).write_text(render("farm_case.html.j2", page=page), encoding="utf-8")
