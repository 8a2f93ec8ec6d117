"""Experiments: variations of the failing cell, on the captured program or on the script.

Each variation runs once, and the case keeps its result.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson

from repro_kit.case.case import Subject
from repro_kit.case.stage_results import CAPTURE, ENVIRONMENT, Capture
from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.evidence import Flip, Link, Side, Step, Untried
from repro_kit.failure.failure import Verdict
from repro_kit.failure.signature import RunOutcome, Signature, Strength, focused, outcome_of, signature_of
from repro_kit.graph import render, without_marks
from repro_kit.journal import JsonLinesJournal
from repro_kit.probe.repro_probe.protocol.orders import Override, Switch
from repro_kit.probe.repro_probe.protocol.queries import Application, Capabilities
from repro_kit.recipe import LADDER, Recipe
from repro_kit.runner.read_findings import probe_failure, read_applied
from repro_kit.runner.subject_start import command, command_with
from repro_kit.serialize import from_data, to_data
from repro_kit.session.oracles import fresh_oracle, open_oracle
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.stages.ablate.cells.script_cells import OnScript

#: The fields of a recipe that the probe can change in a script.
OVERRIDABLE = ("backend", "mode", "dynamic", "fullgraph")
_JOURNAL = "ablate/trials.jsonl"


@dataclass(frozen=True)
class Variation:
    """The changes of an experiment to the failing cell.

    `switch`: a request of `repro_probe/change/subsystems.py`; None without a request.
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
    """The outcome of a variation. `what`: the reason, if it neither passes nor fails alike."""

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


@dataclass(frozen=True)
class Found:
    """The result of a step of the chain of evidence: what it adds to each part of the `Chain`."""

    links: Sequence[Link] = ()
    untried: Sequence[Untried] = ()
    flips: Sequence[Flip] = ()
    needs: tuple[str, ...] | None = None


def not_taken(step: Step, why: str) -> Found:
    """The result of a step that was not taken."""
    return Found(untried=[Untried(step, why)])


class ExperimentRunner(ABC):
    """Runs variations of `cell`, which fails with the signature `target`."""

    subject: Subject  # of a command that repeats an experiment by hand
    users_config: Mapping[str, Any]  # the settings of torch that the user changed
    users_variables: Mapping[str, str]
    capture: Capture | None = None  # if the experiments run on the captured program

    def __init__(self, cells: Cells, cell: Cell, target: Signature) -> None:
        self.cells, self.cell, self.target = cells, cell, target

    @abstractmethod
    def run(self, variations: Sequence[Variation]) -> list[Experiment]:
        """The results of the variations, in order."""

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """The subsystems and settings that this torch can switch."""

    def _experiment(self, verdict: Verdict, applied: Sequence[Application]) -> Experiment:
        applications = tuple(Applied(*words) for words in applied)
        outcome, reason = outcome_of(verdict, self.target, Strength.REBASED), ""
        if outcome not in (RunOutcome.PASSES, RunOutcome.FAILS_ALIKE):
            failure = verdict.failure and signature_of(focused(verdict.failure, self.target)).summary()
            reason = f"fails otherwise: {failure}" if failure else verdict.note or str(verdict.status)
        return Experiment(outcome, reason, verdict.seconds, applications)


class ProgramRunner(ExperimentRunner):
    """Experiments on the captured program, through the oracle."""

    def __init__(self, cells: OnProgram, cell: Cell, target: Signature) -> None:
        super().__init__(cells, cell, target)
        self._program = cells
        self.subject = replace(cells.case.file.subject, form="script", argv=(str(cells.path),))
        self.users_config, self.users_variables = cell.recipe.config, cell.recipe.env
        self.capture = cells.case.load(CAPTURE)

    def run(self, variations: Sequence[Variation]) -> list[Experiment]:
        """Ask the oracle about each variation of the program's recipe."""
        on = self._program
        requests = [(self._text(variation), variation.switch) for variation in variations]
        with open_oracle(on.case, on.options.jobs) as oracle:
            answers = oracle.switched(requests, on.path.parent / "inputs", timeout=on.timeout)
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


class _OnScript(ExperimentRunner):
    """Experiments on the user's command, which the probe changes from outside."""

    def __init__(self, cells: OnScript, cell: Cell, target: Signature) -> None:
        super().__init__(cells, cell, target)
        self._script, self.subject = cells, cells.case.file.subject
        environment = cells.case.load(ENVIRONMENT)
        self.users_config, self.users_variables = environment.config, environment.variables

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


class OutOfTime(Exception):
    """The time for experiments is over; the text says what they cost so far, and how to go on."""


class Experiments:
    """Runs variations that have no result yet, and records the results in `ablate/trials.jsonl` of the case.

    With `allow`, no further run begins when the time is over (OutOfTime); a later process goes on from the records.
    """

    def __init__(self, cells: Cells, cell: Cell, target: Signature) -> None:
        if isinstance(cells, OnProgram):
            self.runner: ExperimentRunner = ProgramRunner(cells, cell, target)
        else:
            assert isinstance(cells, OnScript)
            self.runner = _OnScript(cells, cell, target)
        self.runs = 0  # the number of runs, without those of earlier processes
        self.seconds = 0.0
        self._until = self._allowed = math.inf  # on the clock, and in seconds
        self._options = cells.options
        self._journal = JsonLinesJournal(
            cells.case.path / _JOURNAL,
            lambda entry: from_data(entry["trial"], Experiment),
            lambda experiment: {"trial": to_data(experiment)},
            self._about(),
        )

    @property
    def jobs(self) -> int:
        """The number of parallel experiments."""
        return max(1, self._options.jobs)

    def allow(self, seconds: float) -> None:
        """Begin no run later than `seconds` from now."""
        self._until, self._allowed = time.monotonic() + seconds, seconds

    def ask(self, variations: Sequence[Variation]) -> list[Experiment]:
        """The results of `variations`, in order. Raises OutOfTime."""
        keys = [variation.key for variation in variations]
        new = {key: variation for key, variation in zip(keys, variations, strict=True) if not self._journal.get(key)}
        waiting, at_once = list(new), len(new) if self._until == math.inf else self.jobs
        while waiting:
            started = time.monotonic()
            if started >= self._until:
                raise OutOfTime(self._spent_in_words())
            some, waiting = waiting[:at_once], waiting[at_once:]
            for key, experiment in zip(some, self._repeated([new[key] for key in some]), strict=True):
                self._journal.put(key, experiment)
            self.seconds += time.monotonic() - started
        answers = (self._journal.get(key) for key in keys)
        return [answer for answer in answers if answer is not None]

    def outcomes(self, variations: Sequence[Variation]) -> list[RunOutcome]:
        """The outcomes of `variations`, in order."""
        return [experiment.outcome for experiment in self.ask(variations)]

    def _repeated(self, variations: Sequence[Variation]) -> list[Experiment]:
        """The results of the variations; a passing one is run as often as a passing cell."""
        experiments = self._run(variations)
        for _ in range(self._options.repeat - 1):
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

    def _spent_in_words(self) -> str:
        each = f", {self.seconds / self.runs:.0f} s each" if self.runs else ""
        return f"the {self._allowed:.0f} s for this are over ({self.runs} runs{each})"

    def spent(self) -> tuple[int, float]:
        """The runs and seconds so far."""
        return self.runs, self.seconds

    def costed(self, link: Link, before: tuple[int, float]) -> Link:
        """`link` with the runs and seconds since `before`."""
        return replace(link, runs=self.runs - before[0], seconds=round(self.seconds - before[1], 1))

    def repeat(self, variation: Variation) -> str:
        """A shell command that repeats the experiment by hand; "" if there is none."""
        runner, recipe = self.runner, self.runner.cell.recipe
        env = {"TORCH_BISECT_BACKEND": recipe.backend} if recipe.backend in LADDER else {}
        imports = code = ""
        if variation.eager:
            env = {"TORCH_COMPILE_OVERRIDE_BACKENDS": f"{variation.eager}:eager", **env}
        if variation.switch and "last" in variation.switch:
            env["TORCH_BISECT_SUBSYSTEM"] = variation.switch["subsystem"]
            env["TORCH_BISECT_MAX"] = str(variation.switch["last"])
        elif variation.switch:
            imports, code = "itertools, torch._inductor.compiler_bisector", _switch_by_hand(variation.switch)
        plain = not (variation.config or code)
        words = command(runner.subject) if plain else command_with(runner.subject, variation.config, imports, code)
        if not words:
            return ""
        unset = [name for name in variation.unset if "." not in name]
        first = ["env", *(f"-u {name}" for name in unset)] if unset else []
        first += [f"{name}={shlex.quote(value)}" for name, value in env.items()]
        return " ".join([*first, shlex.join(words)]) + _remark(variation, recipe, runner.cells.recipe())

    def _about(self) -> str:
        """A digest of everything that the results depend on, except the variation."""
        cells = self.runner.cells
        about = (cells.subject, cells.about(), self.runner.cell.recipe, self.runner.target)
        repeat = [cells.options.repeat] if cells.options.repeat > 1 else []
        parts = [to_data(part) for part in (*about, *repeat)]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _remark(variation: Variation, recipe: Recipe, own: Recipe) -> str:
    """A comment for the end of the command, with the changes that the command itself cannot make."""
    remarks = [f"{name} not set" for name in variation.unset if "." in name]
    for name in OVERRIDABLE[1:]:
        value = getattr(recipe, name)
        remarks += [f"torch.compile(…, {name}={value!r})"] if value != getattr(own, name) else []
    return f"  # with {' and '.join(remarks)}" if remarks else ""


def _switch_by_hand(switch: Switch) -> str:
    """Python statements that switch applications off as `repro_probe/change/subsystems.py` does."""
    part, numbers = switch["subsystem"], switch.get("only", switch.get("without"))
    word = "not in" if "only" in switch else "in"
    return (
        "b = torch._inductor.compiler_bisector.CompilerBisector; b.bisection_enabled = True; n = itertools.count(); "
        f"b.disable_subsystem = staticmethod(lambda k, s, d=None: (k, s) == {(switch['backend'], part)!r}"
        f" and next(n) {word} {list(numbers or ())!r})"
    )
