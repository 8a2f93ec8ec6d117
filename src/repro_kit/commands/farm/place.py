"""The directory of a farm: its history, its cases, and the files of units that run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case.case import locked
from repro_kit.errors import UsageError
from repro_kit.regressions.store import FarmCase, FarmStore
from repro_kit.runner.places import instead_of


@dataclass(frozen=True)
class FarmPlace:
    """The directory of a farm."""

    directory: Path

    @property
    def results(self) -> Path:
        """Results of units that are not in the history yet."""
        return self.directory / "results"

    @property
    def orders(self) -> Path:
        """Orders of units that run."""
        return self.directory / "orders"

    @property
    def environments(self) -> Path:
        """The directory for the environments of builds."""
        return instead_of(self.directory / "builds")

    @property
    def logs(self) -> Path:
        """The directory for what executors write."""
        return self.directory / "logs"

    @property
    def drafts(self) -> Path:
        """The directory for texts that `farm file` has prepared."""
        return self.directory / "drafts"

    def entry(self, id: str) -> Path:
        """The directory of a case's files."""
        return self.directory / "cases" / id[:2] / id

    @contextmanager
    def reading(self) -> Iterator[FarmStore]:
        """The history, to read. Another process may write it meanwhile. Raises UsageError if there is no farm."""
        store = FarmStore(self.directory)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[FarmStore]:
        """The history, with the lock of the farm. Raises UsageError if another process holds it."""
        if create:
            try:
                self.directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(
                    f"Cannot make the farm {self.directory}: {error.strerror}; use another --farm."
                ) from error
        elif not self.directory.is_dir():
            raise UsageError(f"{self.directory} is not a farm; `repro-kit farm add BUNDLE` makes one.")
        with locked(self.directory):
            store = FarmStore(self.directory, create=create, writes=True)
            try:
                yield store
            finally:
                store.close()


def named_case(cases: Sequence[FarmCase], word: str) -> FarmCase:
    """The case that `word` means: its name, or the beginning of its id. Raises UsageError."""
    matches = [case for case in cases if case.name == word] or [case for case in cases if case.id.startswith(word)]
    if len(matches) != 1 or not word:
        raise UsageError(f"{word} names {len(matches) or 'no'} case{'s' * (len(matches) > 1)} of the farm.")
    return matches[0]
