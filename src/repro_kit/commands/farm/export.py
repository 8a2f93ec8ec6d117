"""The whole farm as JSON (`farm export`), and several farms as one (`farm merge`)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.commands.farm.add import as_duplicate, most_alike
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.status import case_data, judge_all
from repro_kit.errors import Exit, UsageError
from repro_kit.files import no_file
from repro_kit.regressions.build import Build
from repro_kit.regressions.lifecycle import State
from repro_kit.regressions.store import FarmStore
from repro_kit.regressions.unit import UnitResult
from repro_kit.serialize import encoded, to_data
from repro_kit.ui import Ui

_UNIT_FIELDS = ("line", "build", "attempt", "outcome", "failed", "passed", "note", "seconds", "at", "metrics")
#: The path of an interpreter behind its version. (Both begin with a character that is looked for quickly.)
_INTERPRETER = re.compile(r"@(?<=[\w.+!-]@)(?=[/.~])[^,'\"<>\s]*/[^,'\"<>\s]*")
#: The directory of an absolute path; not of a URL, a relative path or a closing tag.
_DIRECTORY = re.compile(r"/(?<![\w.<:/\\]/)(?:[\w.+@%=~-]+/)+(?=[\w.+@%=~-])")


class Public:
    """Makes a text of the farm one for others to read: no path of this machine is left in it."""

    def __init__(self, place: FarmPlace, store: FarmStore) -> None:
        self._entry = re.compile(
            rf"{re.escape(str(place.directory))}/cases/[0-9a-f]{{2}}/([0-9a-f]{{16}})[0-9a-f]{{48}}"
        )
        self._names: dict[str, str] = {}
        for build in sorted({build for builds in store.builds().values() for build in builds if "@" in build}):
            version = build.partition("@")[0]
            same = sum(name == version or name.startswith(f"{version} #") for name in self._names.values())
            self._names[build] = f"{version} #{same + 1}" if same else version
        spelt = sorted(self._names, key=len, reverse=True)
        self._builds = re.compile("|".join(map(re.escape, spelt))) if spelt else None

    def __call__(self, text: str) -> str:
        """`text`; of a path only its last part, of an interpreter its version, of a case its files on the site."""
        text = self._entry.sub(r"files/\1", text)
        if self._builds:
            text = self._builds.sub(lambda match: self._names[match[0]], text)
        return _DIRECTORY.sub("", _INTERPRETER.sub("", text))


def export(place: FarmPlace, file: Path | None, ui: Ui) -> Exit:
    """Print the whole farm as JSON, or write it to `file`."""
    with place.reading() as store:
        if file is None:
            for piece in pieces(place, store):
                ui.data(piece.decode())
        else:
            write_export(place, store, file)
            ui.note(f"Written: {file}")
    return Exit.OK


def write_export(place: FarmPlace, store: FarmStore, file: Path) -> None:
    """Write the whole farm as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        out.writelines(b"%s\n" % piece for piece in pieces(place, store))


def pieces(place: FarmPlace, store: FarmStore) -> Iterator[bytes]:
    """One JSON object, in pieces: the lines with their builds, and the cases with their results and changes.

    The results are lists in the order of ``units``, as a farm has hundreds of thousands. No piece has a path of this
    machine.
    """
    public = Public(place, store)
    for piece in _pieces(store):
        yield public(piece.decode()).encode()


def _pieces(store: FarmStore) -> Iterator[bytes]:
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
        if not (case.is_imported or place.entry(case.id).is_dir()):
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
            fresh = list(fresh_units(list(theirs.units(case.id)), list(store.units(case.id))))
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


def fresh_units(theirs: Sequence[UnitResult], ours: Sequence[UnitResult]) -> Iterator[UnitResult]:
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
