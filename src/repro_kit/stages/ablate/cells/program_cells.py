"""Cells on the captured program, through the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from repro_kit.case.case import Case
from repro_kit.case.handles import CAPTURE
from repro_kit.files import read_text
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.overrides import setup_words
from repro_kit.model.failure.failure import Kind, Status, Verdict
from repro_kit.model.failure.signature import Signature
from repro_kit.model.recipe import Recipe
from repro_kit.program import Program, parse, render, without_marks
from repro_kit.session.options import AblateOptions
from repro_kit.session.oracles import open_oracle, query_timeout
from repro_kit.stages.ablate.cells.base import Cells, interpreter
from repro_kit.ui import Ui


class OnProgram(Cells):
    """Cells on the captured program, through the oracle."""

    subject = "program"

    def __init__(self, case: Case, options: AblateOptions, ui: Ui, target: Signature | None = None) -> None:
        self.path = case.path / "capture" / "program.py"
        self.text = read_text(self.path)
        self.program = parse(self.text)
        kind = case.file.signature.kind if case.file.signature else Kind.ACCURACY
        self.timeout = query_timeout(options, kind)
        super().__init__(case, options, ui, target)

    def recipe(self) -> Recipe:
        """The program's own."""
        return self.program.recipe

    def usual(self) -> float:
        """What the program took when it was captured."""
        verdict = self.case.load(CAPTURE).verdict
        return verdict.seconds if verdict else 1.0

    def _texts(self) -> list[str]:
        return [self.text]

    def about(self) -> list[object]:
        """The program's text and values, and this torch."""
        inputs = sorted((path.name, path.stat().st_size) for path in (self.path.parent / "inputs").glob("*.pt"))
        return [self.text, inputs, self.timeout, *interpreter(self.case)]

    def _run(self, plans: Sequence[tuple[int, CellPlan]], done: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
        if not plans:
            return
        inputs = self.path.parent / "inputs"
        with open_oracle(self.case, self.options.jobs) as oracle:
            for at, it in plans:
                if not it.compiled:
                    texts = [self._text(it)] * self.options.repeat
                    verdicts = list(oracle.eager(texts, inputs, timeout=self.timeout))
                    verdict = next((one for one in verdicts if one.status is not Status.PASS), verdicts[0])
                    yield at, replace(self._cell(it, verdict), runs=len(verdicts))
            waiting = [(at, it) for at, it in plans if it.compiled]
            for runs in range(1, self.options.repeat + 1):
                texts = [self._text(it) for _, it in waiting]
                again = []
                for (at, it), verdict in zip(waiting, oracle.check(texts, inputs, timeout=self.timeout), strict=True):
                    cell = replace(self._cell(it, verdict), runs=runs)
                    if cell.same or runs == self.options.repeat:
                        yield at, cell
                    else:
                        again.append((at, it))
                waiting = again

    def _text(self, it: CellPlan) -> str:
        preamble = f"{it.setup}\n{self.program.preamble}" if it.setup else self.program.preamble
        program: Program = replace(self.program, recipe=it.recipe, preamble=preamble)
        return render(without_marks(program) if it.recipe.dynamic is False else program)

    def _cell(self, it: CellPlan, verdict: Verdict) -> Cell:
        changes = ", ".join(f"{name}={getattr(it.recipe, name)!r}" for name in it.overridden)
        eager = "" if it.compiled else "TORCH_COMPILE_DISABLE=1 "
        repeat = f"{eager}python {self.path}" + (f"  # with {changes} in its RECIPE" if changes else "")
        return self._made(it, verdict, repeat + setup_words(it))
