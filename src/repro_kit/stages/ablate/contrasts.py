"""Contrasts: more cells that each leave out one part of the layer at fault, to find out which part fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.model.ablation import diagnosis
from repro_kit.model.ablation.axis import field_of, varied
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.layer import first_failing, name_layer
from repro_kit.model.failure.failure import MEASURED, Kind, Layer
from repro_kit.model.recipe import Recipe

#: Python code that leaves out a part. It runs in the user's interpreter before anything is compiled.
_WITHOUT_PYTHON_DECOMPOSITIONS = '''\
import torch._decomp, torch._refs
from torch._dynamo.callback import callback_handler

def operators():
    """All overloads of torch's own operators."""
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            yield getattr(packet, overload)

def without_python_decompositions(*_, operators=list(operators())):
    """Let them be traced through their C++ kernels alone."""
    for operator in operators:
        for key in (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd):
            operator.py_kernels.pop(key, None)
        operator._dispatch_cache.clear()

without_python_decompositions()
callback_handler.register_start_callback(without_python_decompositions)  # removes what is registered later too
'''
_WITHOUT_DECOMPOSITIONS = """\
import torch._inductor.compile_fx

torch._inductor.compile_fx.select_decomp_table = dict
"""
_AFRESH = '''\
import torch._dynamo.eval_frame

def compile_afresh(enter=torch._dynamo.eval_frame._callback_from_stance):
    """Let every call of a compiled function forget what was compiled before."""
    def enter_afresh(callback):
        if callback not in (None, False):
            torch._dynamo.reset_code_caches()
        return enter(callback)
    torch._dynamo.eval_frame._callback_from_stance = enter_afresh

compile_afresh()
'''
_WITHOUT_ARTIFACTS = """\
import torch.compiler

torch.compiler.load_cache_artifacts = lambda serialized_artifacts: None
"""


@dataclass(frozen=True)
class Contrast:
    """A contrast: its `name` in `model/ablation/diagnosis.py`, its changes to the recipe, and code to run first."""

    name: str
    words: str
    setup: str = ""
    axes: tuple[tuple[str, object], ...] = ()

    def plan(self, recipe: Recipe, changed: dict[str, object]) -> CellPlan:
        """The plan of the contrast. `recipe` and `changed`: of the failing cell."""
        for axis, value in self.axes:
            recipe = varied(recipe, axis, value)
        axes = {**changed, **dict(self.axes)}
        overridden = tuple(dict.fromkeys(map(field_of, axes)))
        name = f"{recipe.backend} {self.words}".strip()
        return CellPlan(name, recipe, overridden=overridden, axes={**axes, "contrast": self.name}, setup=self.setup)


_NO_ARTIFACTS = Contrast(diagnosis.NO_ARTIFACTS, "without cache artifacts", setup=_WITHOUT_ARTIFACTS)
_NOT_SPLIT = Contrast(diagnosis.NOT_SPLIT_FOR_DDP, "optimize_ddp=False", axes=(("dynamo.optimize_ddp", False),))


def contrasts(cells: Sequence[Cell], recipe: Recipe, *, artifacts: bool, ddp: bool) -> list[CellPlan]:
    """The contrasts for the layer that `cells` name.

    `artifacts`: the subject loads what an earlier run compiled. `ddp`: its graphs may be split as under
    DistributedDataParallel.
    """
    layer, _ = name_layer(cells, recipe)
    failing = first_failing(cells, recipe)
    if failing is None:
        return []
    failure = failing.verdict.failure
    kind = failure.kind if failure else Kind.ACCURACY
    if kind in MEASURED:
        return []
    more = [_NO_ARTIFACTS] if artifacts else []
    more += [_NOT_SPLIT] if ddp else []
    return [contrast.plan(failing.recipe, failing.changed) for contrast in [*_of(layer, kind, failing.recipe), *more]]


def _of(layer: Layer | None, kind: Kind, recipe: Recipe) -> list[Contrast]:
    if layer is Layer.AOT:
        return [
            Contrast(
                diagnosis.NO_PYTHON_DECOMPOSITIONS,
                "without Python decompositions",
                setup=_WITHOUT_PYTHON_DECOMPOSITIONS,
            ),
            Contrast(diagnosis.DEFAULT_PARTITIONER, "", axes=(("backend", "aot_eager_default_partitioner"),)),
        ]
    if layer is Layer.DECOMPOSITION:
        return [Contrast(diagnosis.NO_DECOMPOSITIONS, "without decompositions", setup=_WITHOUT_DECOMPOSITIONS)]
    if layer is not Layer.DYNAMO:
        return []
    found_contrasts = []
    if recipe.fullgraph:
        found_contrasts.append(
            Contrast(diagnosis.GRAPH_BREAKS_ALLOWED, "fullgraph=False", axes=(("fullgraph", False),))
        )
    if kind not in (Kind.DYNAMO_ERROR, Kind.COMPILE_ERROR):
        found_contrasts.append(Contrast(diagnosis.AFRESH, "compiled afresh for every call", setup=_AFRESH))
    return found_contrasts
