"""Experiments: variations of the failing cell. Each runs once, and the case keeps its result."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace

import orjson

from repro_kit.journal import JsonLinesJournal
from repro_kit.model.ablation.evidence import Link, Side
from repro_kit.model.serialize import from_data, to_data
from repro_kit.stages.ablate.narrow.experiment_runner import Experiment, ExperimentRunner, Variation
from repro_kit.stages.ablate.narrow.repeat_command import repeat_command

_JOURNAL = "ablate/trials.jsonl"


class Experiments:
    """Runs variations that have no result yet, and records the results in `ablate/trials.jsonl` of the case."""

    def __init__(self, runner: ExperimentRunner) -> None:
        self.runner = runner
        self.runs = 0  # the number of runs, without those of earlier processes
        self.seconds = 0.0
        self._journal = JsonLinesJournal(
            runner.cells.case.path / _JOURNAL,
            lambda entry: from_data(entry["trial"], Experiment),
            lambda experiment: {"trial": to_data(experiment)},
            self._about(),
        )

    @property
    def jobs(self) -> int:
        """The number of parallel experiments."""
        return max(1, self.runner.cells.options.jobs)

    def ask(self, variations: Sequence[Variation]) -> list[Experiment]:
        """The results of `variations`, in order."""
        keys = [variation.key for variation in variations]
        new = {key: variation for key, variation in zip(keys, variations, strict=True) if not self._journal.get(key)}
        if new:
            started = time.monotonic()
            for key, experiment in zip(new, self._repeated(list(new.values())), strict=True):
                self._journal.put(key, experiment)
            self.seconds += time.monotonic() - started
        answers = (self._journal.get(key) for key in keys)
        return [answer for answer in answers if answer is not None]

    def _repeated(self, variations: Sequence[Variation]) -> list[Experiment]:
        """The results of the variations; a passing one is run as often as a passing cell."""
        experiments = self._run(variations)
        for _ in range(self.runner.cells.options.repeat - 1):
            passing = [at for at, experiment in enumerate(experiments) if experiment.passes]
            for at, experiment in zip(passing, self._run([variations[at] for at in passing]), strict=True):
                experiments[at] = experiment
        return experiments

    def _run(self, variations: Sequence[Variation]) -> list[Experiment]:
        self.runs += len(variations)
        return self.runner.run(variations) if variations else []

    def side(self, label: str, variation: Variation, experiment: Experiment | None = None) -> Side:
        """The result of `variation` as one side of a link."""
        return Side(label, (experiment or self.ask([variation])[0]).words, self.repeat(variation))

    def repeat(self, variation: Variation) -> str:
        """The command that repeats this experiment by hand; "" if there is none."""
        return repeat_command(self.runner, variation)

    def spent(self) -> tuple[int, float]:
        """The runs and seconds so far."""
        return self.runs, self.seconds

    def costed(self, link: Link, before: tuple[int, float]) -> Link:
        """`link` with the runs and seconds since `before`."""
        return replace(link, runs=self.runs - before[0], seconds=round(self.seconds - before[1], 1))

    def _about(self) -> str:
        """A digest of everything that the results depend on, except the variation."""
        cells = self.runner.cells
        about = (cells.subject, cells.about(), self.runner.cell.recipe, self.runner.target)
        repeat = [cells.options.repeat] if cells.options.repeat > 1 else []
        parts = [to_data(part) for part in (*about, *repeat)]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
