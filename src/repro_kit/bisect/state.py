"""`bisect/state.json`: the question, the builds, and every judgement in the order it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repro_kit.bisect.build import Build, Judgement, Mark
from repro_kit.bisect.search import PATIENCE, Question
from repro_kit.model.failure.signature import Signature

SCHEMA = 1


@dataclass(frozen=True)
class BisectState:
    """All that is known. `good` and `bad` are names of builds; without the older one, it is looked for backwards."""

    schema: int
    about: str  # subject, package and source, in words: another question does not go on from here
    builds: tuple[Build, ...]
    package: str
    source: str
    oracle: str
    good: str | None = None
    bad: str | None = None
    find_fix: bool = False
    patience: int = PATIENCE
    signature: Signature | None = None  # that a build must fail with; None: not known yet, or any failure counts
    repeats: int = 1  # runs that must all pass before a build counts as good
    flaky: str = ""  # how often the failure was seen at the bad end
    reference: float | None = None  # what the good end measures, of a symptom that is relative to it
    repository: str | None = None  # URL on GitHub, where the builds name one
    command: str = ""  # to do it all again
    judgements: tuple[Judgement, ...] = ()

    @property
    def question(self) -> Question:
        """What is searched for, over the builds from the older end to the newer one."""
        low, high = self.span
        return Question(high - low, None if self._old is None else 0, self.find_fix, self.patience)

    @property
    def span(self) -> tuple[int, int]:
        """Where the range begins and ends in `builds`."""
        names = [build.name for build in self.builds]
        low = 0 if self._old is None else names.index(self._old)
        return low, len(names) - 1 if self._new is None else names.index(self._new)

    @property
    def range(self) -> Sequence[Build]:
        """The builds that are searched."""
        low, high = self.span
        return self.builds[low : high + 1]

    @property
    def current(self) -> dict[str, Judgement]:
        """What counts for each build: its last judgement."""
        return {judgement.build: judgement for judgement in self.judgements}

    @property
    def marks(self) -> dict[int, Mark]:
        """What is known of the builds that are searched, in the order it was found out."""
        places = {build.name: index for index, build in enumerate(self.range)}
        return {places[name]: it.mark for name, it in self.current.items() if name in places}

    def with_judgement(self, judgement: Judgement) -> BisectState:
        """The state with one more judgement."""
        return replace(self, judgements=(*self.judgements, judgement))

    def without(self, name: str) -> BisectState:
        """The state that knows nothing of build `name`."""
        return replace(self, judgements=tuple(judgement for judgement in self.judgements if judgement.build != name))

    @property
    def _old(self) -> str | None:
        return self.bad if self.find_fix else self.good

    @property
    def _new(self) -> str | None:
        return self.good if self.find_fix else self.bad
