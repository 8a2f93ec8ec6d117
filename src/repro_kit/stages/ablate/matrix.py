"""The cells of an ablation: presets, and the backends and axes that the user adds, checked in the torch of the case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import OBSERVATION
from repro_kit.diagnosis.axes import FIELDS, Axis, field_of, varied
from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.errors import StageError, UsageError
from repro_kit.probe.repro_probe.protocol.orders import NamesData
from repro_kit.probe.repro_probe.protocol.recipe_data import ENTRIES
from repro_kit.recipe import Recipe, rungs
from repro_kit.runner.ask import NoAnswer, Probe, Question
from repro_kit.session.oracles import open_oracle

#: Modes of Inductor with their options (torch._inductor.list_mode_options).
Modes = Mapping[str, Mapping[str, object]]
#: Those of torch 2.13, for a torch that cannot list its own.
MODES: Modes = {
    "default": {},
    "lite": {"fallback_by_default": True},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}
BASELINE = "no torch.compile"


@dataclass(frozen=True)
class Matrix:
    """The settings to vary, and the machine."""

    preset: str = "standard"
    backends: tuple[str, ...] = ()  # in addition to the ladder and the subject's own backend
    axes: tuple[Axis, ...] = ()
    cross: bool = False  # all combinations of the axes, not one at a time
    accelerator: bool = False
    cheap: bool = True  # the subject is a program: cells cost little
    known_modes: Modes = field(default_factory=lambda: MODES)

    def cells(self, own: Recipe) -> list[CellPlan]:
        """The cells that always run; those that name the layer come first. `own`: the recipe of the subject."""
        plans = [CellPlan(BASELINE, own, compiled=False)]
        backends = [*dict.fromkeys([*rungs(own.backend), *self.backends])]
        everything = self.preset == "full" or (self.preset == "standard" and self.cheap)
        for dynamic in (own.dynamic, *(value for value in FIELDS["dynamic"] if value != own.dynamic)):
            for backend in backends:
                if dynamic != own.dynamic and own.backend in ENTRIES:
                    continue  # the sizes that are dynamic are part of what is exported
                if dynamic == own.dynamic or everything or (self.preset == "standard" and backend == own.backend):
                    plans.append(self._grid(own, backend, dynamic))
        if self.preset == "full":
            plans += self.modes(own)
            plans += self._one_by_one(own, (Axis(name, FIELDS[name]) for name in ("fullgraph", "grad", "caches")))
        plans += self._crossed(own) if self.cross else self._one_by_one(own, self.axes)
        return _distinct(plans)

    def after(self, own: Recipe, cells: Sequence[Cell]) -> list[CellPlan]:
        """The cells that depend on the first ones: Inductor's modes, if Inductor fails alike."""
        inductor = any(cell.same and cell.recipe.backend == "inductor" for cell in cells)
        names = {cell.name for cell in cells}
        modes = self.modes(own) if inductor and self.preset == "standard" else []
        return [mode for mode in modes if mode.name not in names]

    def modes(self, own: Recipe) -> list[CellPlan]:
        """The modes of Inductor, with the subject's own dynamic setting."""
        plans = []
        for mode in self.known_modes:
            if mode == (own.mode or "default"):
                continue  # the cell of the subject's own settings
            recipe = varied(varied(own, "backend", "inductor"), "mode", mode)
            why = self._no_effect(mode)
            axes: dict[str, object] = {"backend": "inductor"} if own.backend != "inductor" else {}
            axes["mode"] = mode
            plans.append(_plan(f"inductor mode={mode}", recipe, axes, why))
        return plans

    def _no_effect(self, mode: str) -> str:
        """Why a mode changes nothing without CUDA graphs, which a machine without an accelerator has not."""
        options = self.known_modes.get(mode)
        if self.accelerator or not options:
            return ""
        if not _without_cuda_graphs(options):
            return "only adds CUDA graphs, and there is no CUDA device"
        for other, others_options in self.known_modes.items():
            has_more = any(map(_is_cuda_graphs, others_options)) and not any(map(_is_cuda_graphs, options))
            if has_more and _without_cuda_graphs(others_options) == options:
                return f"the same as {other} where there are no CUDA graphs"
        return ""

    def _grid(self, own: Recipe, backend: str, dynamic: object) -> CellPlan:
        recipe = varied(varied(own, "backend", backend), "dynamic", dynamic)
        axes = {"backend": backend, "dynamic": dynamic}
        changed = {name: value for name, value in axes.items() if value != getattr(own, name)}
        return _plan(f"{backend} dynamic={dynamic}", recipe, changed)

    def _one_by_one(self, own: Recipe, axes: Iterable[Axis]) -> list[CellPlan]:
        return [self._point(own, {axis.name: value}) for axis in axes for value in axis.values]

    def _crossed(self, own: Recipe) -> list[CellPlan]:
        names = [axis.name for axis in self.axes]
        points = product(*(axis.values for axis in self.axes))
        return [self._point(own, dict(zip(names, values, strict=True))) for values in points] if names else []

    def _point(self, own: Recipe, values: dict[str, object]) -> CellPlan:
        recipe = own
        for name, value in values.items():
            recipe = varied(recipe, name, value)
        if set(values) <= {"backend", "dynamic"}:
            return self._grid(own, recipe.backend, recipe.dynamic)
        words = " ".join(f"{name}={value}" for name, value in values.items() if name != "backend")
        mode = str(values.get("mode", ""))
        why = self._no_effect(mode) if recipe.backend == "inductor" else ""
        return _plan(f"{recipe.backend} {words}", recipe, values, why)


def _is_cuda_graphs(option: str) -> bool:
    return "cudagraph" in option


def _without_cuda_graphs(options: Mapping[str, object]) -> dict[str, object]:
    return {option: value for option, value in options.items() if not _is_cuda_graphs(option)}


def _plan(name: str, recipe: Recipe, axes: dict[str, object], no_effect: str = "") -> CellPlan:
    overridden = tuple(dict.fromkeys(field_of(axis) for axis in axes))
    return CellPlan(name, recipe, overridden=overridden, no_effect=no_effect, axes=axes)


def _distinct(plans: Iterable[CellPlan]) -> list[CellPlan]:
    """`plans` without duplicates; a plan with the recipe of an earlier plan is dropped."""
    distinct: dict[str, CellPlan] = {}
    for plan in plans:
        if not any(
            plan.recipe == earlier.recipe and plan.compiled == earlier.compiled for earlier in distinct.values()
        ):
            distinct.setdefault(plan.name, plan)
    return list(distinct.values())


_QUESTION = Question(seconds=180, module="repro_probe.common.torch_environment")


def check_names(case: Case, backends: Sequence[str], settings: Sequence[str]) -> None:
    """Raise ReproKitError for a backend or a setting that is unknown in the case's interpreter.

    A name in the script counts as known too: the script may register a backend, or define one as a function.
    """
    if not backends and not settings:
        return
    unknown = unknown_names(case, backends, settings)
    if unknown["settings"]:
        raise UsageError(f"--axis: the torch of {case.file.subject.python} has no setting {unknown['settings'][0]}.")
    file_texts = texts(case)
    missing = [name for name in unknown["backends"] if not any(name in text for text in file_texts)]
    if missing:
        raise UsageError(
            f"--backend: {missing[0]} is neither a backend that torch knows (torch._dynamo.list_backends()), nor a name"
            " in the script, nor a MODULE:FUNCTION that can be imported."
        )


def unknown_names(case: Case, backends: Sequence[str], settings: Sequence[str]) -> NamesData:
    """Those of the names that the torch of the case does not know. Raises StageError if it cannot be asked."""
    request: NamesData = {"backends": list(backends), "settings": list(settings)}
    python = case.file.subject.python
    try:
        return Probe(python, Path(case.file.subject.cwd)).ask(_QUESTION, NamesData, request)
    except NoAnswer as error:
        raise StageError(f"{python} could not list its backends and settings ({error.said}).") from error


def modes_of(case: Case) -> Modes:
    """The modes of the case's torch with their options; those of torch 2.13 if it cannot list them."""
    with open_oracle(case) as oracle:
        return oracle.capabilities().get("modes") or MODES


def texts(case: Case) -> list[str]:
    """The texts of the files that the command names."""
    paths = [Path(case.file.subject.cwd) / word for word in case.file.subject.argv]
    return [path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()]


_TRAINS = re.compile(r"\.backward\(")
_COMPILED_AUTOGRAD = Axis("dynamo.compiled_autograd", (True,))


def rank_axes(case: Case, texts: Sequence[str]) -> tuple[Axis, ...]:
    """The axes that apply to a script with these `texts`, in the torch of the case; none for a run of one rank."""
    if not case.load(OBSERVATION).ranks or not any(map(_TRAINS.search, texts)):
        return ()
    is_known = not unknown_names(case, [], [_COMPILED_AUTOGRAD.name])["settings"]
    return (_COMPILED_AUTOGRAD,) if is_known else ()
