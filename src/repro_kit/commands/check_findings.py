"""What `repro-kit check` found of each target, and the failures that are known before: the baseline file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import tomli_w
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from repro_kit.errors import UsageError
from repro_kit.failure.signature import Signature, Strength
from repro_kit.files import read_plain, write_atomic
from repro_kit.serialize import DamagedError, from_data, to_data

SCHEMA = 1
_LARGEST = 16 << 20  # bytes of a baseline, or of saved results
_HEAD = """\
# The failures that `repro-kit check` knows: they end no check with exit code 1, any other does.
# `repro-kit check --update-baseline` writes this file. Two fields are yours, and are kept: `torch`, the versions in
# which the failure is known (">=2.13,<2.15"; it is new in any other), and `note`.
"""


class Ending(StrEnum):
    """How a target ended."""

    AGREES = "agrees"  # compiled does what eager does
    FAILS = "fails"
    UNKNOWN = "not judged"


@dataclass(frozen=True)
class Finding:
    """What one check says of one target; a target with several functions that fail has one for each."""

    target: str
    check: str  # "accuracy", "graph-breaks>0", or "runs" for a file of torch.export.save, which checks itself
    ending: Ending
    words: str
    signature: Signature | None = None
    function: str = ""  # the compiled function, if it is known
    value: float = 0.0  # of a measurement
    causes: tuple[str, ...] = ()  # the kinds of the graph breaks, or of the guards that failed
    file: str = ""  # relative to the current directory
    line: int = 0
    seconds: float = 0.0
    case: str = ""  # of a failure; that of an agreeing target is removed
    bundle: str = ""
    repro: str = ""  # the text of the reduced repro.py
    no_repro: str = ""  # why there is none, of a new failure


@dataclass(frozen=True)
class Results:
    """The findings, and where they were made. `check --json` prints them, and `check` takes the file as a target."""

    findings: tuple[Finding, ...]
    torch: str | None = None
    python: str | None = None
    platform: str | None = None
    accelerator: str | None = None

    @property
    def where(self) -> str:
        """The torch and the machine, in words."""
        known = [f"torch {self.torch}" if self.torch else "", self.platform or "", self.accelerator or ""]
        return ", ".join(filter(None, known)) or "an unknown machine"


@dataclass(frozen=True)
class Known:
    """A failure that is known: an entry of the baseline."""

    target: str
    check: str
    failure: str  # in words, for readers
    signature: Signature
    function: str = ""
    value: float = 0.0  # of a measurement: a larger value is a new failure
    causes: tuple[str, ...] = ()  # of graph breaks and recompiles: another kind of them is a new failure
    seen: str = ""  # the torch that it was first seen with
    torch: str = ""  # the versions in which it is known; empty: all
    note: str = ""

    def covers(self, finding: Finding, torch: str | None) -> bool:
        """Whether `finding` is this failure."""
        if finding.signature is None or (self.target, self.check) != (finding.target, finding.check):
            return False
        if self.function != finding.function or finding.value > self.value or not self.is_known_in(torch):
            return False
        if self.causes and torch == self.seen and set(finding.causes) - set(self.causes):
            return False  # another torch may have other names for them
        places, now = set(self.signature.places), set(finding.signature.places)
        strength = Strength.REBASED if torch == self.seen else Strength.CROSS_VERSION
        return (not places or now <= places) and self.signature.matches(finding.signature, strength)

    def is_hidden_by(self, finding: Finding) -> bool:
        """Whether `finding`, another failure, leaves open whether this one is mended: it may end the run before."""
        same = (self.target, self.check) == (finding.target, finding.check)
        return same and finding.function in ("", self.function)

    def is_known_in(self, torch: str | None) -> bool:
        """Whether the entry is about this version of torch."""
        try:
            return not self.torch or torch is None or SpecifierSet(self.torch).contains(torch, prereleases=True)
        except InvalidVersion:  # a build of the user's own
            return True


@dataclass(frozen=True)
class Baseline:
    """The file of what is known."""

    schema: int
    known: tuple[Known, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """The findings, held against the baseline."""

    new: tuple[Finding, ...] = ()
    known: tuple[tuple[Finding, Known], ...] = ()
    agreeing: tuple[Finding, ...] = ()
    unjudged: tuple[Finding, ...] = ()
    mended: tuple[Known, ...] = ()
    hidden: tuple[Known, ...] = ()  # another failure of the target hides whether they are mended
    accepted: tuple[Finding, ...] = ()  # of the known: this run has written them to the baseline

    def standing(self, finding: Finding) -> str:
        """The finding in one or two words."""
        if finding.ending is not Ending.FAILS:
            return str(finding.ending)
        if any(finding is each for each in self.accepted):
            return "accepted"
        return "known" if any(finding is each for each, _ in self.known) else "new"


def compare(results: Results, baseline: Sequence[Known]) -> Comparison:
    """Hold the findings against the baseline. What was not judged, or not run, is neither known nor mended."""
    failing = [each for each in results.findings if each.ending is Ending.FAILS]
    pairs = [(each, _entry(each, baseline, results.torch)) for each in failing]
    met = [entry for _, entry in pairs if entry is not None]
    judged = {(each.target, each.check) for each in results.findings} - _unjudged(results)
    unmet = [
        entry
        for entry in baseline
        if (entry.target, entry.check) in judged
        and entry.is_known_in(results.torch)
        and not any(entry is each for each in met)
    ]
    hidden = [entry for entry in unmet if any(entry.is_hidden_by(each) for each in failing)]
    return Comparison(
        tuple(each for each, entry in pairs if entry is None),
        tuple((each, entry) for each, entry in pairs if entry is not None),
        tuple(each for each in results.findings if each.ending is Ending.AGREES),
        tuple(each for each in results.findings if each.ending is Ending.UNKNOWN),
        mended=tuple(entry for entry in unmet if not any(entry is each for each in hidden)),
        hidden=tuple(hidden),
    )


def _entry(finding: Finding, baseline: Sequence[Known], torch: str | None) -> Known | None:
    return next((entry for entry in baseline if entry.covers(finding, torch)), None)


def _unjudged(results: Results) -> set[tuple[str, str]]:
    return {(each.target, each.check) for each in results.findings if each.ending is Ending.UNKNOWN}


def updated(baseline: Sequence[Known], found: Comparison, torch: str | None) -> list[Known]:
    """The baseline as this run has it: new failures, no mended ones, and the numbers of now.

    Targets that were not run keep theirs.
    """
    gone = [*found.mended, *found.hidden]
    kept = [_as_now(entry, found) for entry in baseline if not any(entry is each for each in gone)]
    return [*kept, *(_as_known(each, torch) for each in found.new)]


def accepted(found: Comparison, torch: str | None) -> Comparison:
    """The comparison once the baseline is written: what was new is known from then on."""
    entries = tuple((each, _as_known(each, torch)) for each in found.new)
    return replace(found, new=(), known=(*found.known, *entries), accepted=found.new)


def _as_now(entry: Known, found: Comparison) -> Known:
    """`entry` with what was measured of it: a number that went down must not go up again unseen."""
    now = [finding for finding, known in found.known if known is entry and finding.value]
    if not now:
        return entry
    causes = {cause for each in now for cause in each.causes}
    return replace(entry, value=max(each.value for each in now), causes=tuple(sorted(causes)))


def _as_known(finding: Finding, torch: str | None) -> Known:
    assert finding.signature is not None  # it fails
    # How large the difference was changes with each machine, and is not compared.
    signature = replace(finding.signature, magnitude=0.0, doubts=None)
    where = (finding.target, finding.check, signature.summary())
    return Known(*where, signature, finding.function, finding.value, finding.causes, torch or "")


def write_baseline(path: Path, entries: Sequence[Known]) -> None:
    """Write the entries in their order, so that a difference of two versions shows what has changed."""
    ordered = sorted(entries, key=lambda each: (each.target, each.check, each.function, each.failure))
    data = {"schema": SCHEMA, "known": [to_data(each) for each in ordered]}  # without defaults, so without None
    try:
        write_atomic(path, (_HEAD + tomli_w.dumps(data)).encode())
    except OSError as error:
        raise UsageError(f"The baseline {path} cannot be written: {error.strerror}.") from error


def read_baseline(path: Path) -> list[Known]:
    """The entries of a baseline; of saved results (`.json`), their failures. Raises UsageError for anything else."""
    if path.suffix == ".json":
        saved = read_results(path)
        return [_as_known(each, saved.torch) for each in saved.findings if each.ending is Ending.FAILS]
    try:
        baseline = from_data(tomllib.loads(_read(path)), Baseline)
        for each in baseline.known:
            SpecifierSet(each.torch)
    except InvalidSpecifier as error:
        raise UsageError(f"{path}: `torch` must be a version specifier such as >=2.13: {error}.") from error
    except (tomllib.TOMLDecodeError, DamagedError) as error:
        raise UsageError(f"{path} is no baseline of repro-kit ({error}); mend it, or write a new one.") from error
    if baseline.schema > SCHEMA:
        raise UsageError(f"{path} was written by a newer repro-kit (schema {baseline.schema}); upgrade.")
    return list(baseline.known)


def read_results(path: Path) -> Results:
    """The results that `check --json` printed. Raises UsageError."""
    try:
        return from_data(json.loads(_read(path))["results"], Results)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} does not hold what `repro-kit check --json` printed; run the check again.") from error


def _read(path: Path) -> str:
    try:
        return read_plain(path, _LARGEST).decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{path} cannot be read: {reason}.") from error


def beside(results: Results, path: Path) -> tuple[str, ...]:
    """What must be said where the baseline is the results of another run, which may have had other targets."""
    other = read_results(path)
    judged, theirs = (
        {(each.target, each.check) for each in part.findings if each.ending is not Ending.UNKNOWN}
        for part in (results, other)
    )
    sentences = [f"Here: {results.where}. {path}: {other.where}."]
    for these, among, ending in (
        (results, theirs, f"fail here, and {path} does not judge them"),
        (other, judged, f"fail in {path}, and are not judged here"),
    ):
        failing = [each for each in these.findings if each.ending is Ending.FAILS]
        missing = dict.fromkeys(each.target for each in failing if (each.target, each.check) not in among)
        sentences += [f"{ending[:1].upper()}{ending[1:]}: {', '.join(missing)}."] if missing else []
    return tuple(sentences)


def merged(parts: Sequence[Results]) -> Results:
    """The results of several runs as one, with the environment of the first that has one.

    Of a target that was run twice, the later run counts.
    """
    last: dict[tuple[str, str], list[Finding]] = {}
    for part in parts:
        for key in dict.fromkeys((each.target, each.check) for each in part.findings):
            last[key] = [each for each in part.findings if (each.target, each.check) == key]
    first = next((part for part in parts if part.torch), parts[0])
    return replace(first, findings=tuple(each for group in last.values() for each in group))
