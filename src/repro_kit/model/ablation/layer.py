"""From the cells of an ablation to the layer at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.failure.failure import Layer, Status
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.model.run_outcome import RunOutcome

_LAYER_OF = {
    "eager": Layer.DYNAMO,
    "aot_eager": Layer.AOT,
    "aot_eager_decomp_partition": Layer.DECOMPOSITION,
    "inductor": Layer.INDUCTOR,
}

_PEOPLE_SAY = {
    Layer.DYNAMO: "Dynamo",
    Layer.AOT: "AOTAutograd",
    Layer.DECOMPOSITION: "A decomposition or the partitioner",
    Layer.INDUCTOR: "Inductor",
    Layer.BACKEND: "The backend",
}


def name_layer(cells: Sequence[Cell], recipe: Recipe) -> tuple[Layer | None, str]:
    """(layer, one sentence). `recipe` is the subject's own.

    The first backend of the ladder that fails in the subject's way names the layer: each does all that the one
    before it does, and one thing more.
    """
    if any(not cell.compiled and cell.same for cell in cells):
        return Layer.USER, "It fails without torch.compile too: the compiler is not to blame."
    first = first_failing(cells, recipe)
    if first is None:
        return _by_mode(cells, recipe)
    ladder, failing = _ladder(cells, recipe), first.recipe.backend
    layer = _LAYER_OF.get(failing, Layer.BACKEND)
    passing = [name for name in LADDER if name in ladder and ladder[name].outcome is RunOutcome.PASSES]
    before = [name for name in passing if name not in LADDER or _rank(name) < _rank(failing)]
    plain = any(not cell.compiled and cell.outcome is RunOutcome.PASSES for cell in cells)
    good = (
        f"backend {before[-1]!r} passes" if before else "plain eager passes" if plain else "no backend is seen to pass"
    )
    who = f"The backend {failing!r}" if layer == Layer.BACKEND else _PEOPLE_SAY[layer]
    words = _dynamic_words(cells, failing, recipe) + _mode_words(cells, recipe) + _later_words(ladder, failing)
    words += _uncertain_words(ladder, failing)
    return layer, f"{who} is at fault: {good}, {failing!r} fails{words}."


def first_failing(cells: Sequence[Cell], recipe: Recipe) -> Cell | None:
    """The first backend of the ladder (the subject's own after it) that fails in the subject's way."""
    ladder = _ladder(cells, recipe)
    return next((ladder[name] for name in (*LADDER, recipe.backend) if name in ladder and ladder[name].same), None)


def _ladder(cells: Sequence[Cell], recipe: Recipe) -> dict[str, Cell]:
    return {cell.recipe.backend: cell for cell in cells if is_own(cell, recipe)}


def is_own(cell: Cell, recipe: Recipe) -> bool:
    """Whether a cell differs from the subject's own recipe in its backend alone."""
    mode = recipe.mode if cell.recipe.backend == recipe.backend else None
    plain = set(cell.changed) <= {"backend"} and cell.compiled and not cell.no_effect
    return plain and cell.recipe.dynamic == recipe.dynamic and cell.recipe.mode == mode


def is_decided(cells: Sequence[Cell], recipe: Recipe) -> bool:
    """Whether the ladder up to its first backend that fails alike has been tried: no other cell changes the layer."""
    ladder = _ladder(cells, recipe)
    for backend in (*LADDER, recipe.backend):
        if backend not in ladder or ladder[backend].verdict.status in (Status.NOT_RUN, Status.CANNOT_TELL):
            return False
        if ladder[backend].same:
            return any(not cell.compiled for cell in cells)
    return False


def _rank(name: str) -> int:
    return LADDER.index(name) if name in LADDER else len(LADDER)


def _dynamic_words(cells: Sequence[Cell], backend: str, recipe: Recipe) -> str:
    """How the failure depends on dynamic shapes, where it does: it may be gone, or show in another backend first."""
    others: dict[bool | None, list[Cell]] = {}
    for cell in cells:
        if cell.compiled and set(cell.changed) <= {"backend", "dynamic"} and not cell.no_effect:
            others.setdefault(cell.recipe.dynamic, []).append(cell)
    gone, moved = [], []
    for dynamic, ladder in others.items():
        if dynamic == recipe.dynamic or all(cell.recipe.backend != backend for cell in ladder):
            continue
        first = next((it.recipe.backend for it in sorted(ladder, key=_place) if it.same), None)
        if first is None and all(it.outcome is RunOutcome.PASSES for it in ladder if it.recipe.backend == backend):
            gone.append(str(dynamic))
        elif first not in (None, backend):
            moved.append(f", {first!r} first with dynamic={dynamic}")
    only = f", but not with dynamic={' or '.join(gone)}" if gone else ""
    return only + "".join(moved)


def _place(cell: Cell) -> int:
    return _rank(cell.recipe.backend)


def _later_words(ladder: Mapping[str, Cell], failing: str) -> str:
    """That a backend passes which does more than the failing one."""
    later = [name for name in LADDER if _rank(name) > _rank(failing) and name in ladder]
    passing = [repr(name) for name in later if ladder[name].outcome is RunOutcome.PASSES]
    return f", though {' and '.join(passing)} pass{'es' if len(passing) == 1 else ''}" if passing else ""


def _uncertain_words(ladder: Mapping[str, Cell], failing: str) -> str:
    """That a backend before the failing one tells nothing, since it fails in another way or could not be run."""
    unclear = [name for name in LADDER if _rank(name) < _rank(failing) and name in ladder]
    unclear = [name for name in unclear if ladder[name].outcome is not RunOutcome.PASSES]
    if not unclear:
        return ""
    return f" (what {' and '.join(map(repr, unclear))} would tell is hidden: {_why(ladder[unclear[0]])})"


def _why(cell: Cell) -> str:
    return "another failure" if cell.verdict.status is Status.FAIL else str(cell.verdict.status)


def _mode_words(cells: Sequence[Cell], recipe: Recipe) -> str:
    """That it needs the subject's mode, where the default mode passes."""
    default = [cell for cell in cells if cell.recipe.mode == "default" and cell.recipe.backend == "inductor"]
    if recipe.mode and any(cell.outcome is RunOutcome.PASSES for cell in default):
        return f", only with mode={recipe.mode!r}"
    return ""


def _by_mode(cells: Sequence[Cell], recipe: Recipe) -> tuple[Layer | None, str]:
    modes = [cell.recipe.mode for cell in cells if cell.same and cell.recipe.mode and cell.recipe.backend == "inductor"]
    ladder = _ladder(cells, recipe)
    own = ladder.get(recipe.backend)
    if modes:
        words = f"with mode={' or '.join(map(repr, modes))}"
        unjudged = [name for name in LADDER if name not in ladder or ladder[name].outcome is not RunOutcome.PASSES]
        if not unjudged:
            return Layer.INDUCTOR, f"Inductor is at fault: it fails only {words}."
        names = " and ".join(map(repr, unjudged))
        return None, f"It fails {words}, but {names} without it told nothing: the layer stays open."
    if own is not None and own.outcome is RunOutcome.PASSES:
        return None, "Its own settings pass as well: the failure comes and goes (--repeat tries each cell more often)."
    return None, "No cell of the matrix fails in the way the subject did: the layer stays open."
