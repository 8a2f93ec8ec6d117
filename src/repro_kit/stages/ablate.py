"""Ablate: vary how the subject is compiled, and name the layer at fault."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from repro_kit.case import Case
from repro_kit.model.brief import brief
from repro_kit.model.cell import Ablation, Cell
from repro_kit.model.failure import Kind, Status, Verdict
from repro_kit.model.layer import is_own, name_layer
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.model.results import Capture, Environment, Observation
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

MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_DYNAMIC = (None, True, False)
_HANG = 120.0  # seconds for a cell of a script that hangs

_SYMBOLS = {Status.PASS: "✓ pass", Status.INVALID: "– invalid", Status.FLAKY: "~ flaky", Status.INFRA: "? no verdict"}


@dataclass(frozen=True)
class _Plan:
    """A cell to be run."""

    name: str
    recipe: Recipe
    compiled: bool = True
    overridden: tuple[str, ...] = ()  # fields of the recipe that differ from the subject's own
    no_effect: str = ""


def run(case: Case, options: Options, ui: Ui) -> None:
    """Write `ablation.json`."""
    capture = case.read("capture/capture.json", Capture) if case.has("capture/capture.json") else Capture("script")
    env = case.read("env.json", Environment)
    runner = _OnProgram(case, options, ui) if capture.subject == "program" else _OnScript(case, options, ui)
    target = capture.signature if capture.subject == "program" else case.file.signature
    recipe = capture.recipe if capture.subject == "program" else runner.recipe()
    plans = plan(recipe, env.accelerator is not None, full=capture.subject == "program")
    cells = _judged(runner.run(plans), target)
    if any(cell.same and cell.recipe.backend == "inductor" for cell in cells):
        cells += _judged(runner.run(modes(recipe, env.accelerator is not None)), target)
    layer, sentence = name_layer(cells, recipe)
    notes: tuple[str, ...] = ()
    if capture.subject == "program" and case.file.signature is not None:
        cells, notes = _checked_on_script(case, options, ui, cells, recipe)
    case.write("ablation.json", Ablation(capture.subject, tuple(cells), layer, sentence, notes))
    show(cells, ui)
    for note in notes:
        ui.warn(note)
    ui.done(sentence)


def plan(recipe: Recipe, accelerator: bool, *, full: bool) -> list[_Plan]:
    """The cells: plain eager, then backends × dynamic; not `full`: dynamic only for the subject's own backend."""
    cells = [_Plan("no torch.compile", recipe, compiled=False)]
    backends = [*LADDER, *([recipe.backend] if recipe.backend not in LADDER else [])]
    for backend in backends:
        for dynamic in (recipe.dynamic, *(it for it in _DYNAMIC if it != recipe.dynamic)):
            if dynamic != recipe.dynamic and not full and backend != recipe.backend:
                continue
            kept: dict[str, Any] = {} if backend == recipe.backend else {"mode": None, "options": {}}
            changed = recipe.with_(backend=backend, dynamic=dynamic, **kept)
            overridden = [name for name in ("backend", "dynamic") if getattr(changed, name) != getattr(recipe, name)]
            cells.append(_Plan(f"{backend} dynamic={dynamic}", changed, overridden=tuple(overridden)))
    return cells


def modes(recipe: Recipe, accelerator: bool) -> list[_Plan]:
    """Inductor's modes, with the subject's own dynamic."""
    cells = []
    # Without a mode of its own, the subject's cell for Inductor is the default mode's.
    for mode in (*(["default"] if recipe.mode else []), *MODES):
        changed = recipe.with_(backend="inductor", mode=mode, options={})
        why = "" if accelerator else _NO_EFFECT_ON_CPU.get(mode, "")
        cells.append(_Plan(f"inductor mode={mode}", changed, overridden=("backend", "mode"), no_effect=why))
    return cells


_NO_EFFECT_ON_CPU = {
    "reduce-overhead": "only adds CUDA graphs, and there is no CUDA device",
    "max-autotune-no-cudagraphs": "the same as max-autotune where there are no CUDA graphs",
}


def _judged(cells: list[Cell], target: Signature | None) -> list[Cell]:
    judged = []
    for cell in cells:
        failure = cell.verdict.failure
        signature = signature_of(failure) if failure is not None else None
        same = cell.verdict.status == Status.FAIL and signature is not None and target is not None
        same = same and target is not None and signature is not None and target.matches(signature, Strength.REBASED)
        judged.append(replace(cell, verdict=brief(cell.verdict), signature=signature, same=same))
    return judged


class _OnProgram:
    """Cells on the captured program, through the oracle."""

    def __init__(self, case: Case, options: Options, ui: Ui) -> None:
        self.case, self.options, self.ui = case, options, ui
        self.path = case.path / "capture" / "program.py"
        self.program = parse(self.path.read_text(encoding="utf-8"))

    def recipe(self) -> Recipe:
        return self.program.recipe

    def run(self, plans: Sequence[_Plan]) -> list[Cell]:
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

    def _text(self, it: _Plan) -> str:
        program: Program = replace(self.program, recipe=it.recipe)
        return render(without_marks(program) if it.recipe.dynamic is False else program)

    def _cell(self, it: _Plan, verdict: Verdict) -> Cell:
        changes = ", ".join(f"{name}={getattr(it.recipe, name)!r}" for name in it.overridden)
        repeat = f"python {self.path}" + (f"  # with {changes} in its RECIPE" if changes else "")
        return Cell(it.name, it.compiled, it.recipe, verdict, no_effect=it.no_effect, repeat=repeat)


class _OnScript:
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

    def run(self, plans: Sequence[_Plan]) -> list[Cell]:
        done = 0

        def one(numbered: tuple[int, _Plan]) -> Cell:
            nonlocal done
            number, it = numbered
            cell = self._run(it, number)
            done += 1
            self.ui.progress(f"{done} of {len(plans)} cells of the script: {it.name}")
            return cell

        with ThreadPoolExecutor(max(1, self.options.jobs)) as pool:
            return list(pool.map(one, enumerate(plans)))

    def _run(self, it: _Plan, number: int) -> Cell:
        repeat = shlex.join(command(self.case.file.subject))
        if it.no_effect:
            return Cell(it.name, True, it.recipe, Verdict(Status.SKIPPED), no_effect=it.no_effect)
        if not it.compiled:
            repeat = f"TORCH_COMPILE_DISABLE=1 {repeat}"
            verdict = Verdict(self.observation.eager or Status.INFRA)
            return Cell(it.name, False, it.recipe, verdict, repeat=repeat)
        override = {name: getattr(it.recipe, name) for name in it.overridden}
        if it.overridden == ("backend",) and it.recipe.backend in LADDER:
            repeat = f"TORCH_BISECT_BACKEND={it.recipe.backend} {repeat}"
        elif override:
            settings = ", ".join(f"{name}={value!r}" for name, value in override.items())
            repeat += f"  # with torch.compile(…, {settings})"
        verdict = self.verdict(override, f"{number:02d}")
        return Cell(it.name, True, it.recipe, verdict, no_effect=it.no_effect, repeat=repeat)

    def verdict(self, override: dict[str, object], name: str) -> Verdict:
        """Run the script with torch.compile's arguments overridden."""
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
            env={"TORCH_TRACE": str(place.absolute() / "trace")},
        )
        found = failures.found_in(place, ran, read_findings(place / "probe"), summarise(place / "trace"))
        if not found:
            return Verdict(Status.PASS, seconds=ran.seconds)
        if self.observation.eager == Status.PASS:
            found = [failures.in_the_light_of_eager(one) for one in found]
        target = self.case.file.signature
        like = [one for one in found if target is not None and target.matches(one.signature, Strength.REBASED)]
        return Verdict(Status.FAIL, (like or found)[0].failure, ran.seconds)


def _checked_on_script(
    case: Case, options: Options, ui: Ui, cells: list[Cell], recipe: Recipe
) -> tuple[list[Cell], tuple[str, ...]]:
    """Repeat on the script the cells that decide: the last backend that passes, and the first that fails."""
    own = [cell for cell in cells if is_own(cell, recipe)]
    failing = next((cell for cell in own if cell.same), None)
    passing = [cell for cell in own if cell.verdict.status == Status.PASS and cell.recipe.backend in LADDER]
    if failing is None or failing.recipe.backend not in (*LADDER, recipe.backend):
        return cells, ()
    plans = []
    for cell in [*passing[-1:], failing]:
        own_backend = cell.recipe.backend == recipe.backend
        name = f"script: {cell.recipe.backend}"
        plans.append(_Plan(name, cell.recipe, overridden=() if own_backend else ("backend",)))
    again = _judged(_OnScript(case, options, ui).run(plans), case.file.signature)
    notes = []
    for one, cell in zip(again, [*passing[-1:], failing], strict=True):
        if one.same != cell.same:
            notes.append(
                f"The script and the program disagree on {cell.recipe.backend}: "
                f"{_word(one)} on the script, {_word(cell)} on the program."
            )
    return [*cells, *again], tuple(notes)


def show(cells: Sequence[Cell], ui: Ui) -> None:
    """The matrix as a table."""
    rows = [[cell.name, _word(cell), _detail(cell)] for cell in cells]
    ui.table("Ablation", ["cell", "verdict", "what"], rows)


def _word(cell: Cell) -> str:
    if cell.no_effect:
        return "· no effect"
    if cell.same:
        return "✗ fails"
    return _SYMBOLS.get(cell.verdict.status, "! other failure")


def _detail(cell: Cell) -> str:
    if cell.no_effect:
        return cell.no_effect
    if cell.same:
        return "as observed"
    if cell.signature is not None and cell.verdict.status != Status.PASS:
        return cell.signature.summary()
    return cell.verdict.note
