"""Cells on the script that the reduction made of the user's."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import cast

from repro_kit.bundle.repro.script_repro import HANG
from repro_kit.case.case import Case
from repro_kit.case.handles import SOURCE_FAILURE, SOURCE_REDUCTION
from repro_kit.files import read_text
from repro_kit.model.failure.failure import Kind
from repro_kit.model.recipe import Recipe
from repro_kit.probe.repro_probe.protocol.entries import ENTRIES
from repro_kit.probe.repro_probe.protocol.orders import Override, ProbeOptions
from repro_kit.runner.launch import Run
from repro_kit.runner.program_oracle import script_order
from repro_kit.session.options import AblateOptions
from repro_kit.session.oracles import open_oracle
from repro_kit.session.script.script_run import SubjectRun
from repro_kit.session.verdicts import eager_run
from repro_kit.session.verdicts.deadlock_watch import is_stuck
from repro_kit.source import SourceProgram
from repro_kit.source.compile_calls import settings
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.script_cells import OnScript
from repro_kit.ui import Ui

#: What the probe can change in a process that has imported torch already, and that writes nothing at its end.
_IN_A_FORK = {"backend", "mode", "dynamic", "fullgraph", "config", "defaults", "setup", "eager", "measure"}


def reduced_script(case: Case) -> Path | None:
    """The reduced script of the case, if it was seen to fail alike in a fresh interpreter and needs torch only."""
    reduction = case.current(SOURCE_REDUCTION)
    signature = case.file.signature
    if reduction is None or not (reduction.verified and reduction.self_contained) or not case.holds(SOURCE_FAILURE):
        return None
    grows = signature is None or signature.kind is Kind.COMPILE_GROWTH
    return None if grows else (case.path / SOURCE_REDUCTION.name).parent / "best.py"


class OnReducedScript(OnScript):
    """Cells on the reduced script: in forks of a process that has imported torch, if a fork shows the same."""

    def __init__(self, case: Case, options: AblateOptions, ui: Ui, script: Path, *, infer: bool = False) -> None:
        self.script, self.text = script.absolute(), read_text(script)
        self._ranks = max(1, case.load(SOURCE_REDUCTION).ranks)
        self._one_at_a_time, self._workers = Lock(), options.jobs
        hangs = case.file.signature is not None and case.file.signature.kind.policy.hangs
        timeout = min(options.timeout, HANG) if hangs else options.timeout
        super().__init__(case, replace(options, jobs=1, timeout=timeout), ui, infer=infer)

    def of_text(self, text: str) -> OnReducedScript:
        """Cells on `text`, which is made from the reduced script; the axes of a plan must name the change."""
        other = copy(self)
        other.text = text
        return other

    def recipe(self) -> Recipe:
        """The settings of the first call that compiles, as the reduced script has them."""
        recorded = super().recipe()
        return recorded if recorded.backend in ENTRIES else replace(recorded, **settings(SourceProgram(self.text)))

    def usual(self) -> float:
        """The time of a start of an interpreter with torch for each rank, which is most of a cell."""
        return min(super().usual(), 3.0 * self._ranks)

    def texts(self) -> list[str]:
        """The text of the reduced script."""
        return [self.text]

    def changes_torch(self) -> bool:
        """As in `Cells`: the reduced script is all there is."""
        return Cells.changes_torch(self)

    def uses_custom_operators(self) -> bool:
        """As in `Cells`, likewise."""
        return Cells.uses_custom_operators(self)

    def about(self) -> list[object]:
        """The text of the reduced script, and everything that a cell on the user's script depends on."""
        return [self.text, *super().about()]

    def _ended(self, run: SubjectRun, changed: Override) -> Run:
        forks = {name for name, value in changed.items() if value} <= _IN_A_FORK
        if forks and not run.without and run.env in ({}, eager_run.VARIABLES):
            return self._forked(run, changed)
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(self._ranks)] if self._ranks > 1 else []
        argv = [self.case.file.subject.python, *launcher, str(self.script)]
        return super()._ended(replace(run, why="", argv=argv), changed)

    def _forked(self, run: SubjectRun, changed: Override) -> Run:
        run.directory.mkdir(parents=True, exist_ok=True)
        options = cast(ProbeOptions, changed)
        order = script_order(self.text, run.directory, options, env=run.env, ranks=self._ranks)
        with self._one_at_a_time, open_oracle(self.case, self._workers) as oracle:
            stuck = is_stuck if self._ranks > 1 else None
            (ended,) = oracle.run_scripts([order], timeout=run.timeout, is_stuck=stuck)
        return ended
