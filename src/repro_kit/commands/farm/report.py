"""`farm report`: the farm as a static site: a list to filter, a page for each case, a feed, and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from repro_kit.bundle.pages.templates import render
from repro_kit.commands.farm.export import write_export
from repro_kit.commands.farm.judging import FarmJudge
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.errors import Exit, UsageError
from repro_kit.farm.lifecycle import State
from repro_kit.farm.store import FarmCase, Transition
from repro_kit.farm.table import CELLS, seen_in_words
from repro_kit.farm.unit import UnitResult, now
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.ui import Ui

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
