"""Trials: the failing cell once more with one thing changed, on the program or on the script; each made once."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.evidence import Link, Side
from repro_kit.model.failure.failure import Status, Verdict
from repro_kit.model.failure.signature import Signature, Strength, focused, signature_of
from repro_kit.model.recipe import LADDER
from repro_kit.model.serialize import encoded, from_data, to_data
from repro_kit.program import render, without_marks
from repro_kit.runner.findings import probe_failure
from repro_kit.runner.subject import command, command_with
from repro_kit.session.oracles import fresh_oracle, open_oracle
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.stages.ablate.cells.script_cells import OnScript

#: Of a recipe, what the probe can change in a script from outside.
OVERRIDABLE = ("backend", "mode", "dynamic", "fullgraph")


@dataclass(frozen=True)
class Change:
    """What a trial changes; `switch` as in `repro_probe/switches.py`, None without the probe's part in it."""

    switch: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()  # of the user's own settings and variables, back to their defaults
    eager: str = ""  # on a script only: graphs that eager runs, as TORCH_COMPILE_OVERRIDE_BACKENDS names them: ">=3"

    @property
    def key(self) -> str:
        """The same for equal changes."""
        return json.dumps([self.switch, self.config, self.unset, self.eager], sort_keys=True, default=repr)


@dataclass(frozen=True)
class Applied:
    """One application of a subsystem, as a run made it."""

    backend: str
    subsystem: str
    name: str = ""
    line: str = ""  # of the user's code, where torch knows it


@dataclass(frozen=True)
class Trial:
    """What came of it: `fails` as the subject did, passes, or None, which tells nothing."""

    fails: bool | None
    what: str = ""
    seconds: float = 0.0
    applied: tuple[Applied, ...] = ()

    @property
    def outcome(self) -> str:
        """In words."""
        return "fails as observed" if self.fails else "passes" if self.fails is False else self.what or "no verdict"


class Trials:
    """Runs changes of `cell` and remembers the answers, in memory and in `ablate/trials.jsonl` of the case."""

    def __init__(self, runner: Cells, cell: Cell, target: Signature) -> None:
        self.runner, self.cell, self.target = runner, cell, target
        self.runs = 0  # made now, not those of an earlier run
        self.seconds = 0.0
        self._journal = runner.case.path / "ablate" / "trials.jsonl"
        self._known = self._read()

    @property
    def on_program(self) -> bool:
        """Whether the captured program is what runs."""
        return isinstance(self.runner, OnProgram)

    @property
    def jobs(self) -> int:
        """Trials at the same time."""
        return max(1, self.runner.options.jobs)

    def ask(self, changes: Sequence[Change]) -> list[Trial]:
        """The answers to `changes`, in order."""
        new = {change.key: change for change in changes if change.key not in self._known}
        if new:
            started = time.monotonic()
            for change, trial in zip(new.values(), self._repeated(list(new.values())), strict=True):
                self._known[change.key] = trial
                self._write({"key": change.key, "trial": to_data(trial)})
            self.seconds += time.monotonic() - started
        return [self._known[change.key] for change in changes]

    def side(self, what: str, change: Change, trial: Trial | None = None) -> Side:
        """`change` as one side of a link."""
        return Side(what, (trial or self.ask([change])[0]).outcome, self.repeat(change))

    def spent(self) -> tuple[int, float]:
        """Runs and seconds so far."""
        return self.runs, self.seconds

    def costed(self, link: Link, before: tuple[int, float]) -> Link:
        """`link` with what was spent since `before`."""
        return replace(link, runs=self.runs - before[0], seconds=round(self.seconds - before[1], 1))

    def levers(self) -> dict[str, Any]:
        """What this torch lets one switch."""
        if isinstance(self.runner, OnProgram):
            with open_oracle(self.runner.case, self.runner.options) as oracle:
                return oracle.levers()
        with fresh_oracle(self.runner.case) as fresh:
            return fresh.levers()

    def repeat(self, change: Change) -> str:
        """The command that makes this trial by hand; empty where there is none."""
        subject = self.runner.case.file.subject
        if isinstance(self.runner, OnProgram):
            subject = replace(subject, form="script", argv=(str(self.runner.path),))
        env = {"TORCH_BISECT_BACKEND": self.cell.recipe.backend} if self.cell.recipe.backend in LADDER else {}
        imports = code = ""
        if change.eager:
            env = {"TORCH_COMPILE_OVERRIDE_BACKENDS": f"{change.eager}:eager", **env}
        if change.switch and "last" in change.switch:
            env["TORCH_BISECT_SUBSYSTEM"] = change.switch["subsystem"]
            env["TORCH_BISECT_MAX"] = str(change.switch["last"])
        elif change.switch:
            imports, code = "itertools, torch._inductor.compiler_bisector", _by_hand(change.switch)
        plain = not (change.config or code)
        words = command(subject) if plain else command_with(subject, change.config, imports, code)
        if not words:
            return ""
        unset = [name for name in change.unset if "." not in name]
        first = ["env", *(f"-u {name}" for name in unset)] if unset else []
        first += [f"{name}={shlex.quote(value)}" for name, value in env.items()]
        return " ".join([*first, shlex.join(words)]) + self._remark(change)

    def _remark(self, change: Change) -> str:
        """What a command line cannot say: a comment at its end."""
        told = [f"{name} not set" for name in change.unset if "." in name]
        own = self.runner.recipe()
        for name in OVERRIDABLE[1:]:
            value = getattr(self.cell.recipe, name)
            told += [f"torch.compile(…, {name}={value!r})"] if value != getattr(own, name) else []
        return f"  # with {' and '.join(told)}" if told else ""

    def _repeated(self, changes: Sequence[Change]) -> list[Trial]:
        """The answers; what passes is run as often as a cell that passes."""
        trials = self._run(changes)
        for _ in range(self.runner.options.repeat - 1):
            passing = [at for at, trial in enumerate(trials) if trial.fails is False]
            for at, trial in zip(passing, self._run([changes[it] for it in passing]), strict=True):
                trials[at] = trial
        return trials

    def _run(self, changes: Sequence[Change]) -> list[Trial]:
        if not changes:
            return []
        self.runs += len(changes)
        if isinstance(self.runner, OnProgram):
            return self._on_program(self.runner, changes)
        assert isinstance(self.runner, OnScript)
        return self._on_script(self.runner, changes)

    def _on_program(self, runner: OnProgram, changes: Sequence[Change]) -> list[Trial]:
        asked = []
        for change in changes:
            own = {name: value for name, value in self.cell.recipe.config.items() if name not in change.unset}
            env = {name: value for name, value in self.cell.recipe.env.items() if name not in change.unset}
            recipe = self.cell.recipe.with_(config={**own, **change.config}, env=env)
            program = replace(runner.program, recipe=recipe)
            asked.append((render(without_marks(program) if recipe.dynamic is False else program), change.switch))
        with open_oracle(runner.case, runner.options) as oracle:
            answers = oracle.switched(asked, runner.path.parent / "inputs", timeout=runner.timeout)
            return [self._trial(verdict, applied) for verdict, applied in answers]

    def _on_script(self, runner: OnScript, changes: Sequence[Change]) -> list[Trial]:
        own = runner.recipe()
        override = {
            name: getattr(self.cell.recipe, name)
            for name in OVERRIDABLE
            if getattr(self.cell.recipe, name) != getattr(own, name)
        }

        def one(change: Change) -> Trial:
            name = "trial-" + hashlib.sha256(change.key.encode()).hexdigest()[:12]
            settings = [it for it in change.unset if "." in it]
            variables = tuple(it for it in change.unset if "." not in it)
            probe = {**override, "config": dict(change.config), "defaults": settings}
            if change.switch is not None:
                probe["switch"] = dict(change.switch)
            if change.eager:
                probe["eager_graphs"] = change.eager
            verdict = runner.verdict(probe, name, without=variables)
            left = runner.case.path / "ablate" / name / "probe"
            failed = probe_failure(left)
            if failed:
                return Trial(None, failed, verdict.seconds)
            return self._trial(verdict, _applied(left))

        with runner.threads(self.jobs) as pool:
            return list(pool.map(one, changes))

    def _trial(self, verdict: Verdict, applied: Sequence[Sequence[str]]) -> Trial:
        told = tuple(Applied(*it) for it in applied)
        if verdict.status is Status.PASS:
            return Trial(False, "", verdict.seconds, told)
        if verdict.failure is None:
            return Trial(None, verdict.note or str(verdict.status), verdict.seconds, told)
        seen = signature_of(focused(verdict.failure, self.target))
        same = verdict.status is Status.FAIL and self.target.matches(seen, Strength.REBASED)
        return (
            Trial(True, "", verdict.seconds, told)
            if same
            else Trial(None, f"fails otherwise: {seen.summary()}", verdict.seconds, told)
        )

    @property
    def _about(self) -> str:
        """What the answers depend on beside the change."""
        repeat = self.runner.options.repeat
        about = (self.runner.subject, self.runner.about(), self.cell.recipe, self.target)
        parts = [to_data(it) for it in (*about, *([repeat] if repeat > 1 else []))]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def _read(self) -> dict[str, Trial]:
        """Answers of an earlier run about the same subject; anything else starts the journal anew."""
        known: dict[str, Trial] = {}
        lines = []
        with suppress(FileNotFoundError):
            lines = self._journal.read_bytes().splitlines()
        with suppress(ValueError, KeyError, TypeError):  # a last line that was cut off
            for line in lines:
                told = orjson.loads(line)
                if "about" in told:
                    known = {}
                    mine = told["about"] == self._about
                elif mine:
                    known[told["key"]] = from_data(told["trial"], Trial)
        if not known:
            self._write({"about": self._about})
        return known

    def _write(self, line: Mapping[str, Any]) -> None:
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        with self._journal.open("ab") as file:
            file.write(encoded(line) + b"\n")


def _by_hand(switch: Mapping[str, Any]) -> str:
    """Python statements that switch applications off in the way of `repro_probe/switches.py`."""
    part, numbers, word = switch["subsystem"], switch.get("only", switch.get("without")), ""
    word = "not in" if "only" in switch else "in"
    return (
        "b = torch._inductor.compiler_bisector.CompilerBisector; b.bisection_enabled = True; n = itertools.count(); "
        f"b.disable_subsystem = staticmethod(lambda k, s, d=None: (k, s) == {(switch['backend'], part)!r}"
        f" and next(n) {word} {list(numbers or ())!r})"
    )


def _applied(probe: Path) -> list[list[str]]:
    """Those of the process of a script that made most."""
    most: list[list[str]] = []
    for path in sorted(probe.glob("applied-*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > len(most):
            most = [json.loads(line) for line in lines]
    return most
