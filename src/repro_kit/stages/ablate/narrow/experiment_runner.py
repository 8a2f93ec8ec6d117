"""Run variations of the failing cell, on the captured program through the oracle, or on the script."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from repro_kit.case.case import Subject
from repro_kit.case.handles import CAPTURE, ENVIRONMENT
from repro_kit.case.stage_results import Capture, Environment
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.failure.failure import Verdict
from repro_kit.model.failure.signature import Signature, Strength, focused, signature_of
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.probe.repro_probe.protocol.orders import Override, Switch
from repro_kit.probe.repro_probe.protocol.queries import Application, Capabilities
from repro_kit.program import render, without_marks
from repro_kit.runner.read_findings import probe_failure, read_applied
from repro_kit.session.oracles import fresh_oracle, open_oracle
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.stages.ablate.cells.script_cells import OnScript

#: The fields of a recipe that the probe can change in a script.
OVERRIDABLE = ("backend", "mode", "dynamic", "fullgraph")


@dataclass(frozen=True)
class Variation:
    """The changes of an experiment to the failing cell.

    `switch`: a request of `probe/repro_probe/change/subsystem_switches.py`; None without a request.
    """

    switch: Switch | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()  # the user's own settings and variables to reset to their defaults
    eager: str = ""  # on a script only: graphs to run in eager, in the syntax of TORCH_COMPILE_OVERRIDE_BACKENDS: ">=3"

    @property
    def key(self) -> str:
        """A key that is the same for equal variations."""
        return json.dumps([self.switch, self.config, self.unset, self.eager], sort_keys=True, default=repr)


@dataclass(frozen=True)
class Applied:
    """One application of a subsystem in a run."""

    backend: str
    subsystem: str
    name: str = ""
    line: str = ""  # the line of the user's code, if torch knows it


@dataclass(frozen=True)
class Experiment:
    """The result of a variation. `what`: the reason, if the outcome is neither passing nor failing alike."""

    outcome: RunOutcome
    what: str = ""
    seconds: float = 0.0
    applied: tuple[Applied, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the run fails alike."""
        return self.outcome is RunOutcome.FAILS_ALIKE

    @property
    def passes(self) -> bool:
        """Whether the run passes."""
        return self.outcome is RunOutcome.PASSES

    @property
    def words(self) -> str:
        """The outcome in words."""
        return "fails as observed" if self.fails else "passes" if self.passes else self.what or "no verdict"


class ExperimentRunner(ABC):
    """Runs variations of `cell`, which fails with the signature `target`."""

    def __init__(self, cells: Cells, cell: Cell, target: Signature) -> None:
        self.cells, self.cell, self.target = cells, cell, target

    @abstractmethod
    def run(self, variations: Sequence[Variation]) -> list[Experiment]:
        """The results of the variations, in order."""

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """The subsystems and settings that this torch can switch."""

    @property
    @abstractmethod
    def subject(self) -> Subject:
        """The subject of a command that repeats an experiment by hand."""

    @property
    @abstractmethod
    def users_config(self) -> Mapping[str, Any]:
        """The settings of torch that the user changed."""

    @property
    @abstractmethod
    def users_variables(self) -> Mapping[str, str]:
        """The environment variables that the user set."""

    @property
    def capture(self) -> Capture | None:
        """The capture, if the experiments run on the captured program; else None."""
        return None

    def _experiment(self, verdict: Verdict, applied: Sequence[Application]) -> Experiment:
        applications = tuple(Applied(*words) for words in applied)
        outcome, reason = outcome_of(verdict, self.target, Strength.REBASED), ""
        if outcome not in (RunOutcome.PASSES, RunOutcome.FAILS_ALIKE):
            failure = verdict.failure and signature_of(focused(verdict.failure, self.target)).summary()
            reason = f"fails otherwise: {failure}" if failure else verdict.note or str(verdict.status)
        return Experiment(outcome, reason, verdict.seconds, applications)


class ProgramExperiments(ExperimentRunner):
    """Experiments on the captured program."""

    def __init__(self, cells: OnProgram, cell: Cell, target: Signature) -> None:
        super().__init__(cells, cell, target)
        self._program = cells

    def run(self, variations: Sequence[Variation]) -> list[Experiment]:
        """Ask the oracle about each variation of the program's recipe."""
        runner = self._program
        requests = [(self._text(variation), variation.switch) for variation in variations]
        with open_oracle(runner.case, runner.options.jobs) as oracle:
            answers = oracle.switched(requests, runner.path.parent / "inputs", timeout=runner.timeout)
            return [self._experiment(verdict, applied) for verdict, applied in answers]

    def _text(self, variation: Variation) -> str:
        recipe = self.cell.recipe
        config = {name: value for name, value in recipe.config.items() if name not in variation.unset}
        env = {name: value for name, value in recipe.env.items() if name not in variation.unset}
        recipe = recipe.with_(config={**config, **variation.config}, env=env)
        program = replace(self._program.program, recipe=recipe)
        return render(without_marks(program) if recipe.dynamic is False else program)

    def capabilities(self) -> Capabilities:
        """Ask the oracle that runs the programs."""
        with open_oracle(self.cells.case, self.cells.options.jobs) as oracle:
            return oracle.capabilities()

    @property
    def subject(self) -> Subject:
        """The program, as a script."""
        return replace(self.cells.case.file.subject, form="script", argv=(str(self._program.path),))

    @property
    def users_config(self) -> Mapping[str, Any]:
        """The settings in the recipe of the cell."""
        return self.cell.recipe.config

    @property
    def users_variables(self) -> Mapping[str, str]:
        """The variables in the recipe of the cell."""
        return self.cell.recipe.env

    @property
    def capture(self) -> Capture | None:
        """The result of the capture."""
        return self.cells.case.load(CAPTURE)


class ScriptExperiments(ExperimentRunner):
    """Experiments on the user's command, which the probe changes from outside."""

    def __init__(self, cells: OnScript, cell: Cell, target: Signature) -> None:
        super().__init__(cells, cell, target)
        self._script = cells

    def run(self, variations: Sequence[Variation]) -> list[Experiment]:
        """Run the command once for each variation, in parallel if `--jobs` allows it."""
        with self._script.threads(max(1, self.cells.options.jobs)) as pool:
            return list(pool.map(self._run_one, variations))

    def _run_one(self, variation: Variation) -> Experiment:
        name = "trial-" + hashlib.sha256(variation.key.encode()).hexdigest()[:12]
        variables = tuple(name for name in variation.unset if "." not in name)
        verdict = self._script.verdict(self._override(variation), name, without=variables)
        left_behind = self._script.case.path / "ablate" / name / "probe"
        applied, damaged = read_applied(left_behind)
        problems = [*filter(None, [probe_failure(left_behind)]), *damaged]
        if problems:
            return Experiment(RunOutcome.CANNOT_TELL, problems[0], verdict.seconds)
        return self._experiment(verdict, applied)

    def _override(self, variation: Variation) -> Override:
        own_recipe = self._script.recipe()
        changed = {name: getattr(self.cell.recipe, name) for name in OVERRIDABLE}
        arguments = {name: value for name, value in changed.items() if value != getattr(own_recipe, name)}
        override = cast(Override, arguments)
        override["config"] = dict(variation.config)
        override["defaults"] = [name for name in variation.unset if "." in name]
        if variation.switch is not None:
            override["switch"] = variation.switch
        if variation.eager:
            override["eager_graphs"] = variation.eager
        return override

    def capabilities(self) -> Capabilities:
        """Ask a fresh interpreter."""
        with fresh_oracle(self.cells.case) as fresh:
            return fresh.capabilities()

    @property
    def subject(self) -> Subject:
        """The user's command."""
        return self.cells.case.file.subject

    @property
    def users_config(self) -> Mapping[str, Any]:
        """The settings that the script changed in the observed run."""
        return self._environment.config

    @property
    def users_variables(self) -> Mapping[str, str]:
        """The variables of the environment."""
        return self._environment.variables

    @property
    def _environment(self) -> Environment:
        return self.cells.case.load(ENVIRONMENT)


def runner_for(cells: Cells, cell: Cell, target: Signature) -> ExperimentRunner:
    """The experiment runner for the subject of `cells`."""
    if isinstance(cells, OnProgram):
        return ProgramExperiments(cells, cell, target)
    assert isinstance(cells, OnScript)
    return ScriptExperiments(cells, cell, target)
