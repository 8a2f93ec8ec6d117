"""`farm add`: take bundles and cases into the farm, and say of a duplicate what it duplicates, and why."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from repro_kit.bundle.archive.archive import FORMS
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.bundle.repro.source_files import is_users
from repro_kit.bundle.story.title import title_of
from repro_kit.case.case import Case
from repro_kit.commands.bisect.answer import clues_of
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.show import story_at
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.files import no_file, read_plain
from repro_kit.regressions.groups import CaseFacts, Likeness, culprit_of, duplicate_of
from repro_kit.regressions.lifecycle import State
from repro_kit.regressions.store import FarmCase, FarmStore, Transition
from repro_kit.regressions.unit import now
from repro_kit.repro_run.untrusted import REPRO, UntrustedBundle, claim_of, opened
from repro_kit.serialize import encoded, to_data
from repro_kit.session.case_paths import is_case
from repro_kit.ui import Ui
from repro_kit.visible import visible

#: Files for people that are kept with those that run.
_KEPT = (MANIFEST, "story.json", "issue.md", "report.html", "ablation.json", "env.json", "recipe.toml", "README.md")
_LARGEST = 32 << 20  # bytes of a file that is kept


@dataclass(frozen=True)
class Added:
    """What became of one target."""

    target: str
    outcome: str  # "added", "duplicate", "there already", "not added"
    case: FarmCase | None = None
    words: str = ""
    exit: Exit = Exit.OK

    def as_json(self) -> dict[str, Any]:
        """The fields of ``--json``."""
        case = self.case
        return {
            "target": self.target,
            "outcome": self.outcome,
            "name": case.name if case else None,
            "id": case.id if case else None,
            "state": case.state if case else None,
            "original": case.original if case else None,
            "why": self.words,
        }


def add(place: FarmPlace, targets: Sequence[Path], ui: Ui) -> Exit:
    """Add the targets: bundles, cases, or a `repro.py`. Nothing is run. A target that is refused stops no other."""
    done = []
    with place.writing(create=True) as store:
        for target in targets:
            try:
                result = add_target(place, store, target)
            except ReproKitError as error:
                result = Added(str(target), "not added", words=str(error), exit=error.exit_code)
                ui.warn(str(error))
            else:
                name = result.case.name if result.case else result.target
                ui.print(f"{name}: {result.outcome}{f'; {visible(result.words)}' if result.words else ''}")
            done.append(result)
    worst = max((result.exit for result in done), default=Exit.OK)
    ui.result({"farm": str(place.directory), "added": [result.as_json() for result in done], "exit": int(worst)})
    return worst


def add_target(place: FarmPlace, store: FarmStore, target: Path) -> Added:
    """Add one target. Raises ReproKitError when it is refused."""
    cases = store.cases()
    if is_case(target) and not (target / "bundle" / REPRO).is_file():
        return _without_bundle(target, cases)
    if not target.exists():
        raise UsageError(f"{target} does not exist; give a bundle, a case or a repro.py.")
    with opened(target) as bundle:
        facts, lacking = facts_of(bundle), _lacking(bundle)
        id = _identity(bundle, facts)
        there = store.case(id)
        if there is not None:
            return Added(str(target), "there already", there, f"it has the same files as {there.source}")
        _keep(bundle, place.entry(id))
    at = now()
    case = FarmCase(id, _free_name(target, facts, cases), str(target.absolute()), at, facts, since=at)
    alike = most_alike(facts, cases)
    with store.writing():
        store.add(case)
        if alike is not None and alike[1].same:
            store.move(as_duplicate(place, case, *alike), alike[0].id)
    if alike is None:
        return Added(str(target), "added", case, f"{facts.summary}{lacking}")
    words = f"{alike[0].name} ({alike[0].state}): {alike[1].why}"
    if alike[1].same:
        return Added(str(target), "duplicate", store.case(id), f"of {words}{lacking}")
    hint = "Runs on several builds show whether they are the same bug."
    return Added(str(target), "added", case, f"{facts.summary}; similar to {words}{lacking}. {hint}")


def subjects_in(folder: Path) -> Iterator[str]:
    """Yield the cases with a bundle, the bundles and the unpacked bundles in `folder`.

    The bundle archive of a case that is in the folder is left out.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a directory; give one that holds cases or bundles.")
    for path in sorted(folder.iterdir()):
        unpacked = any((path / name).is_file() for name in ("repro.py", "bundle/repro.py"))
        form = next((form for form in FORMS if path.name.endswith(form)), None)
        if unpacked or (form and not is_case(path.with_name(path.name.removesuffix(form)))):
            yield path.name


def _lacking(bundle: UntrustedBundle) -> str:
    """The missing parts without which a bundle shows nothing, as the end of a sentence; "" if it is whole."""
    needs = claim_of(bundle.whole, bundle.target).needs
    if not needs or any(map(is_users, bundle.runs.texts)):  # the case itself keeps the user's source files
        return ""
    return f"; it fails as expected only with {' and '.join(needs)}, which it lacks: its README.md says how to add that"


def as_duplicate(place: FarmPlace, case: FarmCase, original: FarmCase, likeness: Likeness) -> Transition:
    """The change that makes a new case a duplicate."""
    evidence = f"duplicate of {original.name}: {likeness.why}"
    command = shlex.join(["repro-kit", "diff", str(place.entry(case.id)), str(place.entry(original.id))])
    return Transition(case.id, case.since, State.NEW, State.DUPLICATE, evidence, command)


def _without_bundle(target: Path, cases: Sequence[FarmCase]) -> Added:
    """Say of a case that is not reduced yet whether the farm has its failure. It is not added: nothing can be run."""
    facts = CaseFacts(signature=Case.open(target).file.signature)
    alike = most_alike(facts, cases)
    if alike is not None and alike[1].same:
        return Added(
            str(target),
            "duplicate",
            alike[0],
            f"of {alike[0].name} ({alike[0].state}): {alike[1].why}; it need not be reduced",
        )
    similar = f" It is similar to {alike[0].name} ({alike[1].why})." if alike else ""
    raise UsageError(
        f"{target} has no repro.py yet; run `repro-kit collect {shlex.quote(str(target))}` and add it then.{similar}"
    )


def most_alike(facts: CaseFacts, cases: Sequence[FarmCase]) -> tuple[FarmCase, Likeness] | None:
    """The case of the farm that is most like these facts, if one is similar; see `regressions/groups.py`."""
    originals = {case.id: case for case in cases if case.original is None}
    best = duplicate_of(facts, {id: case.facts for id, case in originals.items()})
    return (originals[best[0]], best[1]) if best else None


def facts_of(bundle: UntrustedBundle) -> CaseFacts:
    """The facts in a bundle. Raises ReproKitError when its manifest is damaged."""
    claim = claim_of(bundle.whole, bundle.target)
    text = (bundle.directory / REPRO).read_text(encoding="utf-8", errors="replace")
    ablation = _ablation(bundle.whole)
    culprit, flips = culprit_of(ablation)
    cause = ablation.get("cause")
    return CaseFacts(
        claim.signature,
        claim.layer,
        cause if isinstance(cause, str) else "",
        culprit,
        flips,
        clues_of(None, None, text).ops,
        claim.torch,
        claim.repeats,
        claim.limit,
        _title(bundle),
    )


def _ablation(directory: Path) -> dict[str, Any]:
    """The bundle's `ablation.json`; empty when it is missing or damaged, since it only helps to compare cases."""
    try:
        data = orjson.loads(read_plain(directory / "ablation.json", _LARGEST))
    except (OSError, ValueError, ReproKitError):
        return {}
    return data if isinstance(data, dict) else {}


def _identity(bundle: UntrustedBundle, facts: CaseFacts) -> str:
    """The SHA-256 of what runs and of the failure that is expected."""
    digest = hashlib.sha256()
    for name in sorted((*bundle.runs.texts, *bundle.runs.values)):
        with (bundle.directory / name).open("rb") as file:
            digest.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    digest.update(encoded(to_data(facts.signature)) if facts.signature else b"")
    return digest.hexdigest()


def _keep(bundle: UntrustedBundle, entry: Path) -> None:
    """Copy the files that run, and those for people, to `entry`: completely or not at all."""
    aside = entry.with_name(f".{entry.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(bundle.directory, aside)
    for name in _KEPT:
        path = bundle.whole / name
        if path.is_file() and not path.is_symlink() and not no_file(path) and path.stat().st_size <= _LARGEST:
            shutil.copyfile(path, aside / name)
    if entry.exists():  # left by an `add` that was killed before it reached the history
        shutil.rmtree(entry)
    aside.rename(entry)


def _free_name(target: Path, facts: CaseFacts, cases: Sequence[FarmCase]) -> str:
    """A name for people: that of the target; if another case has it, with the operator at fault, else a number."""
    path = target.absolute()
    stem = path.parent.name if path.name == REPRO else path.name
    for suffix in (".zip", ".tar.gz", ".tgz", ".py", ".repro"):
        stem = stem.removesuffix(suffix)
    taken = {case.name for case in cases}
    operator = facts.operator or (facts.operators[0] if facts.operators else "")
    told = f"{stem}-{operator.removeprefix('aten.').removesuffix('.default')}" if operator else stem
    names = (stem, told, *(f"{told}-{number}" for number in range(2, len(cases) + 3)))
    return next(name for name in names if name not in taken)


def _title(bundle: UntrustedBundle) -> str:
    """The title of the bundle's own report; "" without one."""
    try:
        return visible(title_of(story_at(bundle.whole)))
    except ReproKitError:
        return ""
