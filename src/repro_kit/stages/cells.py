"""Cells: a way to compile the subject, and how it is tried, on the captured program or on the user's script."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from repro_kit.case import Case
from repro_kit.model.brief import brief
from repro_kit.model.cell import Cell
from repro_kit.model.failure import Kind, Status, Verdict
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.model.results import Observation
from repro_kit.model.signature import Signature, Strength, signature_of
from repro_kit.program import Program, parse, render, without_marks
from repro_kit.runner.findings import read_findings
from repro_kit.runner.recorded import read_recorded
from repro_kit.runner.subject import command
from repro_kit.stages import failures
from repro_kit.stages.options import Options
from repro_kit.stages.oracle import open_oracle, query_timeout
from repro_kit.stages.running import run_subject
from repro_kit.trace import summarise
from repro_kit.ui import Ui

_HANG = 120.0  # seconds for a cell of a script that hangs


@dataclass(frozen=True)
class Plan:
    """A cell to be run. On a script, only what is `overridden` of the recipe is changed, from outside."""

    name: str
    recipe: Recipe
    compiled: bool = True
    overridden: tuple[str, ...] = ()  # fields of the recipe that differ from the subject's own
    no_effect: str = ""


def judged(cells: Sequence[Cell], target: Signature | None) -> list[Cell]:
    """`cells` with their failures' signatures, and whether these are the one that is looked for."""
    judged = []
    for cell in cells:
        failure = cell.verdict.failure
        signature = signature_of(failure) if failure is not None else None
        same = cell.verdict.status == Status.FAIL and signature is not None and target is not None
        same = same and target is not None and signature is not None and target.matches(signature, Strength.REBASED)
        judged.append(replace(cell, verdict=brief(cell.verdict), signature=signature, same=same))
    return judged


class OnProgram:
    """Cells on the captured program, through the oracle."""

    def __init__(self, case: Case, options: Options, ui: Ui) -> None:
        self.case, self.options, self.ui = case, options, ui
        self.path = case.path / "capture" / "program.py"
        self.program = parse(self.path.read_text(encoding="utf-8"))

    def recipe(self) -> Recipe:
        """The program's own."""
        return self.program.recipe

    def run(self, plans: Sequence[Plan]) -> list[Cell]:
        """The cells of `plans`, in order."""
        kind = self.case.file.signature.kind if self.case.file.signature else Kind.ACCURACY
        timeout = query_timeout(self.options, kind)
        inputs = self.path.parent / "inputs"
        compiled = [it for it in plans if it.compiled and not it.no_effect]
        verdicts: dict[int, Verdict] = {}
        with open_oracle(self.case, self.options) as oracle:
            for it in plans:
                if not it.compiled:
                    (verdicts[id(it)],) = oracle.eager([self._text(it)], inputs, timeout=timeout)
            texts = [self._text(it) for it in compiled]
            for count, (it, verdict) in enumerate(
                zip(compiled, oracle.check(texts, inputs, timeout=timeout), strict=True)
            ):
                verdicts[id(it)] = verdict
                self.ui.progress(f"{count + 1} of {len(compiled)} cells: {it.name}")
        return [self._cell(it, verdicts.get(id(it), Verdict(Status.SKIPPED))) for it in plans]

    def _text(self, it: Plan) -> str:
        program: Program = replace(self.program, recipe=it.recipe)
        return render(without_marks(program) if it.recipe.dynamic is False else program)

    def _cell(self, it: Plan, verdict: Verdict) -> Cell:
        changes = ", ".join(f"{name}={getattr(it.recipe, name)!r}" for name in it.overridden)
        repeat = f"python {self.path}" + (f"  # with {changes} in its RECIPE" if changes else "")
        return Cell(it.name, it.compiled, it.recipe, verdict, no_effect=it.no_effect, repeat=repeat)


class OnScript:
    """Cells on the user's own command, changed from outside by the probe."""

    def __init__(self, case: Case, options: Options, ui: Ui) -> None:
        self.case, self.options, self.ui = case, options, ui
        self.observation = case.read("observe/run.json", Observation)

    def recipe(self) -> Recipe:
        """The script's own settings: those of its first `torch.compile`; Inductor is the default."""
        for recorded in read_recorded(self.case.path / "capture" / "record"):
            known = recorded.compile_settings()
            if known:
                return Recipe(backend=known["backend"], mode=known["mode"], dynamic=known["dynamic"])
        return Recipe()

    def run(self, plans: Sequence[Plan]) -> list[Cell]:
        """The cells of `plans`, in order; as many at a time as there are jobs."""
        done = 0

        def one(numbered: tuple[int, Plan]) -> Cell:
            nonlocal done
            number, it = numbered
            cell = self._run(it, number)
            done += 1
            self.ui.progress(f"{done} of {len(plans)} cells of the script: {it.name}")
            return cell

        with ThreadPoolExecutor(max(1, self.options.jobs)) as pool:
            return list(pool.map(one, enumerate(plans)))

    def _run(self, it: Plan, number: int) -> Cell:
        repeat = shlex.join(command(self.case.file.subject))
        if it.no_effect:
            return Cell(it.name, True, it.recipe, Verdict(Status.SKIPPED), no_effect=it.no_effect)
        if not it.compiled:
            repeat = f"TORCH_COMPILE_DISABLE=1 {repeat}"
            verdict = Verdict(self.observation.eager or Status.INFRA)
            return Cell(it.name, False, it.recipe, verdict, repeat=repeat)
        override = {name: getattr(it.recipe, name) for name in it.overridden if name != "env"}
        env = it.recipe.env if "env" in it.overridden else {}
        if it.overridden == ("backend",) and it.recipe.backend in LADDER:
            repeat = f"TORCH_BISECT_BACKEND={it.recipe.backend} {repeat}"
        elif override:
            settings = ", ".join(f"{name}={value!r}" for name, value in override.items())
            repeat += f"  # with torch.compile(…, {settings})"
        if env:
            repeat = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in env.items()), repeat])
        verdict = self.verdict(override, f"{number:02d}", env)
        return Cell(it.name, True, it.recipe, verdict, no_effect=it.no_effect, repeat=repeat)

    def verdict(self, override: Mapping[str, object], name: str, env: Mapping[str, str] | None = None) -> Verdict:
        """Run the script with `torch.compile`'s arguments, settings (`config`) and variables changed from outside.

        What it leaves goes to `ablate/NAME` of the case.
        """
        kind = self.case.file.signature.kind if self.case.file.signature else None
        timeout = min(self.options.timeout, _HANG) if kind == Kind.TIMEOUT else self.options.timeout
        place = self.case.path / "ablate" / name
        (place / "trace").mkdir(parents=True, exist_ok=True)
        ran = run_subject(
            self.case,
            place,
            timeout=timeout,
            mode="override",
            probe=override,
            env={"TORCH_TRACE": str(place.absolute() / "trace"), **(env or {})},
        )
        found = failures.found_in(place, ran, read_findings(place / "probe"), summarise(place / "trace"))
        if not found:
            return Verdict(Status.PASS, seconds=ran.seconds)
        if self.observation.eager == Status.PASS:
            found = [failures.in_the_light_of_eager(one) for one in found]
        target = self.case.file.signature
        like = [one for one in found if target is not None and target.matches(one.signature, Strength.REBASED)]
        return Verdict(Status.FAIL, (like or found)[0].failure, ran.seconds)
