"""`farm report`: the farm as a static site, and one text for each release, to be kept as an issue."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from repro_kit.bundle.archive.archive import CHECKSUMS, checksums, pack
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.bundle.pages import html
from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.commands.farm.export import Public, write_export
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.status import CaseStanding, FarmJudge, twins_of
from repro_kit.commands.show import story_at
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.failure.signature import RunOutcome
from repro_kit.files import no_file, read_plain
from repro_kit.regressions.lifecycle import CELLS, State, Trend, VerdictFlip, seen_in_words
from repro_kit.regressions.metrics import Worse, worse
from repro_kit.regressions.release import Attribution, Batch, Whose, is_twin, release_of, without_twins
from repro_kit.regressions.store import FarmCase, FarmStore, Transition
from repro_kit.regressions.unit import UnitResult
from repro_kit.repro_run.untrusted import REPRO
from repro_kit.session.github import send
from repro_kit.ui import Ui

_ROWS = 30  # of a table in the text of a release, which must fit into an issue
_FEED = 200  # newest changes in the feed
_LARGEST = 32 << 20  # bytes of a bundle that is offered
_LONGEST = 200_000  # characters of a case's code that its page shows
#: The class of a verdict in the strips, and the top and the height of its box: the shape tells them apart as well.
_CLASSES = {
    **dict.fromkeys(RunOutcome, "none"),
    RunOutcome.FAILS_ALIKE: "fails",
    RunOutcome.PASSES: "passes",
    RunOutcome.FAILS_OTHERWISE: "other",
}
_SHAPES = {"fails": (0, 10), "passes": (7, 3), "other": (0, 5), "none": (4, 1)}


@dataclass(frozen=True)
class SiteRequest:
    """Where the site is written, and the issue that holds the report of the newest release."""

    directory: Path | None = None
    issue: str = ""  # a link, or a number with `repository`


@dataclass(frozen=True)
class Strip:
    """The verdicts of a case on a line as a drawing: for each class, an SVG path of boxes; `width` in builds."""

    line: str
    width: int
    words: str  # the same for those who do not see it
    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class VerdictRow:
    """Neighbouring builds with the same verdict."""

    first: str
    last: str
    builds: int
    cell: str
    twin: str
    seen: str


@dataclass(frozen=True)
class CasePage:
    """What the site says of a case."""

    case: FarmCase
    original: FarmCase | None
    standing: CaseStanding
    strips: tuple[Strip, ...]
    tables: tuple[tuple[str, tuple[VerdictRow, ...]], ...]
    repeat: str
    history: tuple[Transition, ...]
    worse: tuple[tuple[str, Worse], ...]  # by line: the numbers that grew
    newest: UnitResult | None  # the last run
    alike: tuple[str, ...] = ()  # the names of its duplicates, which show the same
    code: str = ""
    links: tuple[tuple[str, str], ...] = ()  # words, and the file on the site

    @property
    def file(self) -> str:
        """The name of its page."""
        return f"{self.case.id[:16]}.html"

    @property
    def began(self) -> VerdictFlip | None:
        """Where it began to fail, if it fails now, and passed before."""
        return self.standing.began[1] if self.standing.began else None

    @property
    def whose(self) -> Attribution:
        """Whose the regression is."""
        return self.standing.attribution or Attribution(Whose.UNKNOWN, "")

    @property
    def cannot(self) -> str:
        """Why the newest build says nothing of it; "" if it does."""
        newest = next((each.newest for each in self.standing.standings if each.trend is Trend.CANNOT_RUN), None)
        return (newest.note or "it cannot run") if newest else ""


@dataclass(frozen=True)
class ReleaseReport:
    """What is known of one release: what began to fail on a build of it, and what says nothing."""

    release: str
    builds: tuple[str, ...]  # the newest build of each line
    regressions: Mapping[Whose, Sequence[CasePage]]
    flaky: tuple[CasePage, ...] = ()
    mended: tuple[tuple[CasePage, VerdictFlip], ...] = ()
    known: tuple[CasePage, ...] = ()  # they fail, and did so on the first build that was run
    worse: tuple[tuple[CasePage, Worse], ...] = ()
    silent: tuple[CasePage, ...] = ()
    outages: tuple[Batch, ...] = ()
    last_run: str = ""
    groups: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # by what, its name, the cases

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"release-{self.release}.md"

    @property
    def count(self) -> int:
        """How many cases regressed."""
        return sum(map(len, self.regressions.values()))


def report(place: FarmPlace, request: SiteRequest, ui: Ui) -> Exit:
    """Write the site (default: in the farm), and bring the issue up to date. The pages load nothing.

    The same farm gives the same files.
    """
    site = request.directory or place.directory / "report"
    if site.exists() and any(site.iterdir()) and not (site / "farm.json").is_file():
        raise UsageError(f"{site} holds other files; give a new directory with --output.")
    with ui.stage("report"), place.reading() as store:
        judge, public = FarmJudge(place, store), Public(place, store)
        pages = list(_pages(place, store, judge))
        releases = list(_releases(store, judge, pages))
        shown = [_with_files(place, site, page, public) for page in pages]
        _write(site, shown, store, list(judge.outages.values()), releases, public)
        write_export(place, store, site / "farm.json")
        texts = [str(site / release.name) for release in releases]
        written = ", ".join([str(site / "index.html"), *texts])
        ui.done(f"{len(pages)} case{'s' * (len(pages) != 1)}: {written}")
    sent = _sent(request, site, releases, ui)
    ui.result({"site": str(site), "cases": len(pages), "releases": texts, "issue": sent or None, "exit": int(Exit.OK)})
    return Exit.OK


def _sent(request: SiteRequest, site: Path, releases: Sequence[ReleaseReport], ui: Ui) -> str:
    """Put the text of the newest release into the issue, after a yes; the link to it."""
    if not request.issue:
        return ""
    if not releases:
        raise UsageError("There is no report of a release: no build of the farm has a version.")
    text = site / releases[-1].name
    if not ui.confirm(f"Replace the text of {request.issue} by {text}, for everybody to read?"):
        by_hand = f"gh issue edit {request.issue} --body-file {text}"
        ui.note(f"Nothing was sent; --yes sends without asking, and so does: {by_hand}")
        return ""
    send(
        ["issue", "edit", request.issue], text.read_text(encoding="utf-8"), remedy=f"paste {text} into {request.issue}"
    )
    ui.note(f"Sent: {request.issue}")
    return request.issue


def _pages(place: FarmPlace, store: FarmStore, judge: FarmJudge) -> Iterator[CasePage]:
    by_id = {case.id: case for case in store.cases()}
    history: dict[str, list[Transition]] = {id: [] for id in by_id}
    for change in store.transitions():
        history[change.case].append(change)
    for case in by_id.values():
        results = judge.results(case)
        standing, lines = judge.standing(case, results), sorted(without_twins(results).items())
        yield CasePage(
            case,
            by_id.get(case.original or ""),
            standing,
            tuple(strip(line, of_line) for line, of_line in lines),
            tuple((line, _rows(of_line, twins_of(results, line))) for line, of_line in lines),
            judge.repeat(case, standing),
            tuple(reversed(history[case.id])),
            tuple((line, change) for line, of_line in lines for change in worse(of_line)),
            max((unit for _, ran in lines for unit in ran if unit.at), key=lambda it: (it.at, it.build), default=None),
            tuple(other.name for other in by_id.values() if other.original == case.id),
        )


def strip(line: str, verdicts: Sequence[UnitResult]) -> Strip:
    """Draw a strip: neighbouring builds of one class are one box."""
    paths: dict[str, str] = {}
    at, counts = 0, Counter(_CLASSES[verdict.outcome] for verdict in verdicts)
    for name, members in groupby(verdicts, lambda verdict: _CLASSES[verdict.outcome]):
        width, (top, height) = len(list(members)), _SHAPES[name]
        paths[name] = paths.get(name, "") + f"M{at} {top}h{width}v{height}h-{width}z"
        at += width
    names = {"fails": "fails on", "passes": "passes on", "other": "fails differently on", "none": "cannot run on"}
    words = ", ".join(f"{names[name]} {counts[name]}" for name in names if counts[name])
    return Strip(line, at, f"{line}, {at} builds: {words}", tuple(paths.items()))


def _rows(verdicts: Sequence[UnitResult], twins: Mapping[str, UnitResult]) -> tuple[VerdictRow, ...]:
    def told(verdict: UnitResult) -> tuple[RunOutcome, str, str]:
        twin = twins.get(verdict.build)
        return verdict.outcome, seen_in_words(verdict), CELLS[twin.outcome] if twin else ""

    rows = []
    for (outcome, seen, twin), group in groupby(verdicts, told):
        members = list(group)
        rows.append(VerdictRow(members[0].build, members[-1].build, len(members), CELLS[outcome], twin, seen))
    return tuple(rows)


def _releases(store: FarmStore, judge: FarmJudge, pages: Sequence[CasePage]) -> Iterator[ReleaseReport]:
    """A report for each release of which builds were run, oldest first."""
    versions: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by release: the newest build of each line
    release: dict[tuple[str, str], str] = {}
    ran = store.ran()
    known = {line: {name: version for name, version, _ in store.builds_of(line)} for line in judge.builds}
    for line, builds in judge.builds.items():
        for build in builds:
            name = release_of(known[line].get(build))
            if name and (line, build) in ran and not is_twin(line):
                release[line, build] = name
                versions[name][line] = build
    for name in sorted(versions, key=lambda each: [int(part) for part in each.split(".")]):
        yield _release(name, versions[name], release, judge, pages)


def _release(
    name: str,
    newest: Mapping[str, str],
    release: Mapping[tuple[str, str], str],
    judge: FarmJudge,
    pages: Sequence[CasePage],
) -> ReleaseReport:
    """The report of one release. A case counts where it began to fail, or went silent."""

    def within(line: str, build: str) -> bool:
        return release.get((line, build)) == name

    regressions: dict[Whose, list[CasePage]] = {each: [] for each in Whose}
    flaky, mended, known, slower, silent = [], [], [], [], []
    for page in (page for page in pages if page.case.original is None):
        state, began = page.case.state, page.standing.began
        for each in page.standing.standings:
            mended += [(page, flip) for flip in each.flips[-1:] if flip.fixed and within(each.line, flip.after.build)]
        slower += [(page, change) for line, change in page.worse if within(line, change.after)]
        fails = [each for each in page.standing.standings if each.trend is Trend.FAILS and each.decisive]
        here = any(within(each.line, each.decisive.build) for each in fails if each.decisive)
        decided = [each for each in page.standing.standings if each.decisive and within(each.line, each.decisive.build)]
        if state is State.STALE and any(
            within(each.line, each.newest.build) for each in page.standing.standings if each.newest
        ):
            silent.append(page)
        elif state is State.FLAKY and decided:
            flaky.append(page)
        elif began and within(began[0].line, began[1].after.build):
            regressions[page.whose.whose].append(page)
        elif here and not began:
            known.append(page)
    return ReleaseReport(
        name,
        tuple(f"{line}: {build}" for line, build in sorted(newest.items())),
        regressions,
        tuple(flaky),
        tuple(mended),
        tuple(known),
        tuple(slower),
        tuple(silent),
        tuple(each for each in judge.outages.values() if within(each.line, each.build)),
        max((page.newest.at for page in pages if page.newest), default=""),
        tuple(_grouped([page for group in regressions.values() for page in group])),
    )


def _grouped(pages: Sequence[CasePage]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The regressions by operator, lowering and pass: by what, its name, and the cases; the most cases first."""
    for what, words in (("operator", "operator"), ("lowering", "lowering"), ("cause", "pass")):
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for page in pages:
            groups[getattr(page.case.facts, what)].append(page.case.name)
        groups.pop("", None)
        yield from ((words, name, tuple(groups[name])) for name in sorted(groups, key=lambda each: -len(groups[each])))


def _with_files(place: FarmPlace, site: Path, page: CasePage, public: Public) -> CasePage:
    """The page with the code of its case, and with links to the files for others, which are copied to the site.

    What came in a bundle is redacted; a bare script is redacted here. `report.html` is made anew from the story, since
    a stranger's page might hold anything.
    """
    entry, target = place.entry(page.case.id), site / "files" / page.case.id[:16]
    path = entry / REPRO
    if not path.is_file() or no_file(path):
        return page
    code = read_plain(path, _LARGEST).decode("utf-8", "replace")
    links = [("repro.py", REPRO)]
    target.mkdir(parents=True, exist_ok=True)
    if (entry / MANIFEST).is_file():
        links += _bundle_files(entry, target, public)
    else:
        redactor = Redactor()
        redactor.learn(code, REPRO)
        code = public(redactor.redact(code, REPRO).text)
    (target / REPRO).write_bytes(code.encode())
    found = tuple((words, f"../files/{page.case.id[:16]}/{name}") for words, name in links)
    whole = [file.removeprefix("../") for words, file in found if words == "bundle"]
    repeat = page.repeat.replace(str(entry), whole[0]) if whole else page.repeat
    return replace(page, code=code[:_LONGEST], links=found, repeat=repeat)


def _bundle_files(entry: Path, target: Path, public: Public) -> Iterator[tuple[str, str]]:
    """Copy what a bundle holds for people, and the bundle itself: words, and the name of the file."""
    if (entry / "issue.md").is_file():
        text = read_plain(entry / "issue.md", _LARGEST).decode("utf-8", "replace")
        (target / "issue.md").write_bytes(public(text).encode())
        yield "issue.md", "issue.md"
    try:
        page, marks = html.report(story_at(entry))
    except ReproKitError:  # a bundle without a story, or a damaged one
        pass
    else:
        for mark, text in marks.items():
            page = page.replace(mark, text)
        (target / "report.html").write_bytes(public(page).encode())
        yield "report.html", "report.html"
    files = {
        path.relative_to(entry).as_posix(): path for path in entry.rglob("*") if path.is_file() and not no_file(path)
    }
    if sum(path.stat().st_size for path in files.values()) <= _LARGEST:
        name = "bundle.repro.zip"
        if not (target / name).exists():
            members = {member: path.read_bytes() for member, path in sorted(files.items()) if member != CHECKSUMS}
            pack(target / name, {**members, CHECKSUMS: checksums(members)})
            (target / name).chmod(0o644)  # everybody may read the site
        yield "bundle", name


def _write(
    site: Path,
    pages: Sequence[CasePage],
    store: FarmStore,
    outages: Sequence[Batch],
    releases: Sequence[ReleaseReport],
    public: Public,
) -> None:
    order, transitions = list(State), store.transitions()
    pages = sorted(pages, key=lambda page: order.index(page.case.state))
    by_id = {page.case.id: page for page in pages}
    ran = max((page.newest for page in pages if page.newest), key=lambda it: (it.at, it.build), default=None)
    last = transitions[-1].at[:10] if transitions else ""
    made = max([ran.at if ran else "", *(change.at for change in transitions[-1:])])
    (site / "cases").mkdir(parents=True, exist_ok=True)
    index = render(
        "farm.html.j2",
        pages=pages,
        counts=Counter(page.case.state for page in pages),
        states=order,
        layers=sorted({page.case.facts.layer for page in pages if page.case.facts.layer}),
        operators=sorted({page.case.facts.operator for page in pages if page.case.facts.operator}),
        tonight=[change for change in transitions if last and change.at.startswith(last)][::-1],
        day=last,
        by_id=by_id,
        made=made,
        ran=ran,
        outages=outages[-5:],
        silent=[page for page in pages if page.cannot],
        releases=releases,
    )
    newest = transitions[: -_FEED - 1 : -1]
    feed = render("farm.atom.j2", changes=newest, by_id=by_id, made=made)
    for name, text in (("index.html", index), ("feed.atom", feed)):
        (site / name).write_bytes(public(text).encode())
    for release in releases:
        text = render("farm_release.md.j2", report=release, whose=Whose, most=_ROWS)
        (site / release.name).write_bytes(public(text).encode())
    for page in pages:
        (site / "cases" / page.file).write_bytes(public(render("farm_case.html.j2", page=page)).encode())
    kept = {page.case.id[:16] for page in pages}
    for path in (site / "files").glob("*"):
        if path.name not in kept:
            shutil.rmtree(path)
