"""Cells on a program, the reduced or the captured one, run by the oracle."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from repro_kit.case.case import Case
from repro_kit.case.stage_results import CAPTURE, REDUCTION
from repro_kit.diagnosis.axes import setup_words
from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.diagnosis.promises import OwnSettings
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.files import read_text
from repro_kit.graph import Program, parse, render, without_marks
from repro_kit.options.stages import AblateOptions
from repro_kit.recipe import Recipe
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.session.oracles import open_oracle, query_timeout
from repro_kit.stages.ablate.cells.base import Cells, interpreter, judged, may_change_torch
from repro_kit.ui import Ui

_USUAL = 3.0  # approximate seconds of a cell of a small program
_MEASUREMENTS = 3  # of a cell whose measurement is in doubt
_PATIENCE = 3  # times the limit, for a cell that is run again alone since it ran into the limit


#: A step of a reduction that continued on Inductor's graph, which backends before Inductor never see.
_ATEN = "aten_border"


def reduced_program(case: Case) -> Path | None:
    """The reduced program, if it failed alike in a fresh interpreter and every backend can compile it; else None."""
    reduction = case.current(REDUCTION)
    if reduction is None or not reduction.verified or any(step.name == _ATEN for step in reduction.steps):
        return None
    path = case.path / "minify" / "best.py"
    return path if path.is_file() else None


class OnProgram(Cells):
    """Cells on a program: the reduced program, or the captured one if `captured`, or if there is no reduced one."""

    subject = "program"

    def __init__(
        self, case: Case, options: AblateOptions, ui: Ui, target: Signature | None = None, *, captured: bool = False
    ) -> None:
        reduced = None if captured else reduced_program(case)
        self.which: Literal["captured", "reduced"] = "captured" if reduced is None else "reduced"
        self.path = reduced or case.path / "capture" / "program.py"
        self.text = read_text(self.path)
        self._seconds: float | None = None  # of the last run of a cell
        self.program = parse(self.text)
        kind = case.file.signature.kind if case.file.signature else Kind.ACCURACY
        self.timeout = query_timeout(case, options, kind)
        super().__init__(case, options, ui, target)

    def recipe(self) -> Recipe:
        """The recipe of the program."""
        return self.program.recipe

    def usual(self) -> float:
        """The time of the last cell; before the first cell, the time of the captured program."""
        if self.target is not None and self.target.kind.policy.hangs:
            return self.timeout
        verdict = self.case.load(CAPTURE).verdict
        captured = verdict.seconds if verdict else _USUAL
        expected = captured if self.which == "captured" else min(captured, _USUAL)
        return expected if self._seconds is None else self._seconds

    @property
    def is_reduced(self) -> bool:
        """Whether the cells run on the reduced program."""
        return self.which == "reduced"

    def settled(self, plan: CellPlan) -> Cell | None:
        """As in `Cells`; capture has run the captured program with its own recipe already."""
        cell = super().settled(plan)
        capture = self.case.load(CAPTURE)
        is_own = plan.compiled and plan.recipe == self.recipe() and not (plan.setup or plan.no_effect)
        again = "run" in plan.axes or self.options.repeat > 1
        if cell is not None or capture.verdict is None or self.which == "reduced" or not is_own or again:
            return cell
        return judged(replace(self._cell(plan, capture.verdict), signature=capture.signature), self.target)

    def texts(self) -> list[str]:
        """The text of the program."""
        return [self.text]

    def own_settings(self) -> OwnSettings:
        """Those of the recipe, and the text of the program."""
        recipe = self.recipe()
        return OwnSettings(recipe.config, recipe.options, recipe.env, self.texts())

    def changes_torch(self) -> bool:
        """As in `Cells`: a program does so in its preamble, or by the settings of its recipe."""
        recipe = self.recipe()
        return may_change_torch("\n".join((self.program.preamble, *recipe.config, *recipe.options)))

    def about(self) -> list[object]:
        """The text and values of the program, the time limit that the user gave, and this torch."""
        inputs = sorted((path.name, path.stat().st_size) for path in (self.path.parent / "inputs").glob("*.pt"))
        return [self.text, inputs, self.options.query_timeout, *interpreter(self.case)]

    def _run(self, plans: Sequence[tuple[int, CellPlan]], done: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
        if not plans:
            return
        inputs = self.path.parent / "inputs"
        with open_oracle(self.case, self.options.jobs) as oracle:
            for at, plan in plans:
                if not plan.compiled:
                    yield at, self._eager_cell(oracle, plan, inputs)
            waiting = [(at, plan) for at, plan in plans if plan.compiled]
            slow: list[tuple[int, CellPlan, int]] = []
            for runs in itertools.count(1):
                if not waiting:
                    break
                texts = [self._text(plan) for _, plan in waiting]
                again = []
                for (at, plan), verdict in zip(waiting, oracle.check(texts, inputs, timeout=self.timeout), strict=True):
                    self._seconds = verdict.seconds
                    cell = replace(self._cell(plan, verdict), runs=runs)
                    if self._ran_into_limit(verdict):
                        slow.append((at, plan, runs))
                    elif cell.same or runs >= self._at_most(cell):
                        yield at, cell
                    else:
                        again.append((at, plan))
                waiting = again
            for at, plan, runs in slow:
                (verdict,) = oracle.check([self._text(plan)], inputs, timeout=_PATIENCE * self.timeout)
                yield at, replace(self._cell(plan, self._no_verdict(verdict)), runs=runs + 1)

    def _at_most(self, cell: Cell) -> int:
        """How often a cell that does not fail as expected is run.

        Compile times of a busy machine may tell nothing, or miss a growth that is known: they are measured again.
        """
        known = cell.compiled and cell.recipe == self.recipe() and not cell.setup
        if self.target is None or self.target.kind is not Kind.COMPILE_GROWTH:
            return self.options.repeat
        doubtful = known or cell.verdict.status is Status.CANNOT_TELL
        return max(self.options.repeat, _MEASUREMENTS) if doubtful else self.options.repeat

    def _eager_cell(self, oracle: ProgramOracle, plan: CellPlan, inputs: Path) -> Cell:
        """The cell without torch.compile: the first run that does not pass, if any."""
        texts = [self._text(plan)] * self.options.repeat
        verdicts = list(oracle.eager(texts, inputs, timeout=self.timeout))
        failed = [verdict for verdict in verdicts if verdict.status is not Status.PASS]
        return replace(self._cell(plan, (failed or verdicts)[0]), runs=len(verdicts))

    def _ran_into_limit(self, verdict: Verdict) -> bool:
        """Whether a cell ran into the time limit, although the expected failure is not a hang."""
        ended = verdict.failure is not None and verdict.failure.kind.policy.hangs
        return ended and (self.target is None or not self.target.kind.policy.hangs)

    def _no_verdict(self, verdict: Verdict) -> Verdict:
        """`verdict`, or CANNOT_TELL if the cell ran into the longer limit too, which is no evidence."""
        if not self._ran_into_limit(verdict):
            return verdict
        note = f"no end after {_PATIENCE * self.timeout:.0f} s"
        return Verdict(Status.CANNOT_TELL, seconds=verdict.seconds, note=note)

    def _text(self, plan: CellPlan) -> str:
        preamble = f"{plan.setup}\n{self.program.preamble}" if plan.setup else self.program.preamble
        program: Program = replace(self.program, recipe=plan.recipe, preamble=preamble)
        return render(without_marks(program) if plan.recipe.dynamic is False else program)

    def _cell(self, plan: CellPlan, verdict: Verdict) -> Cell:
        changes = ", ".join(f"{name}={getattr(plan.recipe, name)!r}" for name in plan.overridden)
        eager = "" if plan.compiled else "TORCH_COMPILE_DISABLE=1 "
        repeat = f"{eager}python {shlex.quote(str(self.path))}" + (
            f"  # with {changes} in its RECIPE" if changes else ""
        )
        return self._made(plan, verdict, repeat + setup_words(plan))
