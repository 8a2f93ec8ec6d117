"""The request of the `bisect` command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.bisect.build import Mark
from repro_kit.bisect.next_build import PATIENCE
from repro_kit.builds.catalog import BuildSelection, PackageEnds
from repro_kit.errors import UsageError
from repro_kit.model.measure.symptom import Symptom


@dataclass(frozen=True)
class BisectRequest:
    """What is run on which builds, what counts as the failure, and where the answer goes."""

    words: tuple[str, ...]  # the subject, or the words of a command
    is_command: bool
    again: str  # the command line that continues the search
    packages: tuple[PackageEnds, ...]  # packages to vary, one after the other
    builds: BuildSelection
    find_fix: bool = False
    all_parents: bool = False  # search the branch too when the answer is a merge
    timeout: float = 600.0  # seconds for one run
    on_timeout: Mark = Mark.SKIP
    others: Mark = Mark.SKIP  # the mark of a different failure
    symptom: Symptom | None = None
    any_failure: bool = False
    repeats: int = 1  # runs that must pass before a build is good
    patience: int = PATIENCE  # skipped builds after which a gap is given up
    spread: int = 0  # builds that are judged to find every change of the result
    marks: tuple[str, ...] = ()  # verdicts set by hand, "BUILD=MARK"
    log: bool = False  # show what was judged, and run nothing
    repo: Path | None = None  # clone whose commits are ranked
    directory: Path | None = None  # directory for the state; None: that of the subject
    fresh: bool = False  # forget all judgements


def axes_of(packages: Sequence[str], good: Sequence[str], bad: Sequence[str]) -> tuple[PackageEnds, ...]:
    """Return the packages to vary with their ends: the first `--good` belongs to the first `--package`, and so on."""
    names = list(packages) or ["torch"]
    if max(len(good), len(bad)) > len(names) or len(set(names)) < len(names):
        raise UsageError("Give --good and --bad at most once for each --package, in the same order.")

    def of(words: Sequence[str], at: int) -> str | None:
        return words[at] if at < len(words) else None

    return tuple(PackageEnds(name, of(good, at), of(bad, at)) for at, name in enumerate(names))
