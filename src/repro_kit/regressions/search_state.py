"""The state of a bisection (`bisect/state.json`): the question, the builds, and all judgements in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from repro_kit.errors import UsageError
from repro_kit.failure.signature import Signature
from repro_kit.files import read_plain, write_atomic
from repro_kit.ownership import is_marked, mark_of
from repro_kit.probe.repro_probe.protocol.findings import OWNER_FILE
from repro_kit.regressions.build import Build, Judgement, Mark
from repro_kit.regressions.search import PATIENCE, Question
from repro_kit.regressions.unit import UnitResult
from repro_kit.serialize import dumps, from_data

SCHEMA = 1


@dataclass(frozen=True)
class BisectState:
    """The state. `good` and `bad` are names of builds. Without the older one, the search looks backwards for it."""

    schema: int
    about: str  # subject, package and source in words; a search with another text starts anew
    builds: tuple[Build, ...]
    package: str
    source: str
    oracle: str
    good: str | None = None
    bad: str | None = None
    find_fix: bool = False
    patience: int = PATIENCE
    signature: Signature | None = None  # the failure to search for; None: not known yet, or any failure counts
    repeats: int = 1  # runs that must all pass before a build counts as good
    flaky: str = ""  # how often the bad end failed, in words
    reference: float | None = None  # the good end's measurement, for a symptom that is relative to it
    repository: str | None = None  # URL on GitHub, if the builds name one
    command: str = ""  # the command that repeats the bisection
    judgements: tuple[Judgement, ...] = ()
    unfinished: UnitResult | None = None  # the finished runs on a build that is not judged yet

    @property
    def question(self) -> Question:
        """The question of the search, over the builds from the older end to the newer one."""
        low, high = self.span
        return Question(high - low, None if self._old is None else 0, self.find_fix, self.patience)

    @property
    def span(self) -> tuple[int, int]:
        """The indices in `builds` of the first and the last build in the range."""
        names = [build.name for build in self.builds]
        low = 0 if self._old is None else names.index(self._old)
        return low, len(names) - 1 if self._new is None else names.index(self._new)

    @property
    def range(self) -> Sequence[Build]:
        """The builds in the range."""
        low, high = self.span
        return self.builds[low : high + 1]

    @property
    def current(self) -> dict[str, Judgement]:
        """The judgement that counts for each build: its last one."""
        return {judgement.build: judgement for judgement in self.judgements}

    @property
    def marks(self) -> dict[int, Mark]:
        """The marks of the builds in the range, in the order of the judgements."""
        places = {build.name: index for index, build in enumerate(self.range)}
        return {places[name]: judgement.mark for name, judgement in self.current.items() if name in places}

    def with_judgement(self, judgement: Judgement) -> BisectState:
        """The state with one more judgement."""
        return replace(self._finished(judgement.build), judgements=(*self.judgements, judgement))

    def without(self, name: str) -> BisectState:
        """The state without the judgements on build `name`."""
        kept = tuple(judgement for judgement in self.judgements if judgement.build != name)
        return replace(self._finished(name), judgements=kept)

    def _finished(self, name: str) -> BisectState:
        return replace(self, unfinished=None) if self.unfinished and self.unfinished.build == name else self

    @property
    def _old(self) -> str | None:
        return self.bad if self.find_fix else self.good

    @property
    def _new(self) -> str | None:
        return self.good if self.find_fix else self.bad


STATE = "state.json"

_LARGEST = 64 << 20  # bytes of the state file


def read_state(directory: Path) -> BisectState | None:
    """The state in `directory`; None when there is none. Raises UsageError when it cannot be read."""
    path = directory / STATE
    try:
        data = orjson.loads(read_plain(path, _LARGEST))
        if data["schema"] > SCHEMA:
            raise UsageError(f"{path} was written by a newer repro-kit; upgrade, or start anew with --fresh.")
        return from_data(data, BisectState)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is damaged; start anew with --fresh.") from error


def read_own_state(directory: Path) -> BisectState | None:
    """The state in `directory` to go on with: it names the wheels to install, so this user must have written it."""
    state = read_state(directory)
    if state is not None and not is_marked(directory, _chosen(state)):
        raise UsageError(
            f"{directory / STATE} is not marked as yours on this machine, and it names the builds to install; "
            "start anew with --fresh."
        )
    return state


def write_state(directory: Path, state: BisectState) -> None:
    """Write the state; a reader sees the old file or the new one. A second file says who chose the builds."""
    directory.mkdir(parents=True, exist_ok=True)
    mark = mark_of(directory, _chosen(state))
    if mark and not is_marked(directory, _chosen(state)):
        write_atomic(directory / OWNER_FILE, mark.encode())
    write_atomic(directory / STATE, dumps(state))


def _chosen(state: BisectState) -> str:
    """What a state makes repro-kit install, and from where."""
    return dumps([state.about, state.package, state.repository, state.builds]).decode()


DIRECTORY = "bisect"  # of a case

ANSWER = "answer.md"
