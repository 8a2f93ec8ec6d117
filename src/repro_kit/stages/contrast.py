"""Contrasts: further cells, each with one part of the layer at fault left out, that tell which part it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.model import causes
from repro_kit.model.axis import field_of, varied
from repro_kit.model.cell import Cell
from repro_kit.model.failure import Kind, Layer
from repro_kit.model.layer import first_failing, name_layer
from repro_kit.model.recipe import Recipe
from repro_kit.stages.cells import Plan

#: Python code that leaves a part out; it is run before anything is compiled, in the user's interpreter.
_WITHOUT_PYTHON_DECOMPOSITIONS = '''\
import torch._decomp, torch._refs

def without_python_decompositions():
    """Let operators of torch be traced through their C++ kernels alone."""
    keys = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            operator = getattr(packet, overload)
            for key in keys:
                operator.py_kernels.pop(key, None)
            operator._dispatch_cache.clear()

without_python_decompositions()
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


@dataclass(frozen=True)
class Contrast:
    """`name` of `model/causes.py`; what is changed of the failing cell's recipe, and the code that is run before."""

    name: str
    words: str
    setup: str = ""
    axes: tuple[tuple[str, object], ...] = ()

    def plan(self, recipe: Recipe, changed: dict[str, object]) -> Plan:
        """The contrast as a cell; `recipe` is that of the failing cell."""
        for axis, value in self.axes:
            recipe = varied(recipe, axis, value)
        axes = {**changed, **dict(self.axes)}
        overridden = tuple(dict.fromkeys(map(field_of, axes)))
        name = f"{recipe.backend} {self.words}".strip()
        return Plan(name, recipe, overridden=overridden, axes={**axes, "contrast": self.name}, setup=self.setup)


def contrasts(cells: Sequence[Cell], recipe: Recipe) -> list[Plan]:
    """Those that tell the parts of the layer apart which `cells` name."""
    layer, _ = name_layer(cells, recipe)
    failing = first_failing(cells, recipe)
    if failing is None:
        return []
    failure = failing.verdict.failure
    kind = failure.kind if failure else Kind.ACCURACY
    return [it.plan(failing.recipe, failing.changed) for it in _of(layer, kind, failing.recipe)]


def _of(layer: Layer | None, kind: Kind, recipe: Recipe) -> list[Contrast]:
    if layer is Layer.AOT:
        return [
            Contrast(
                causes.NO_PYTHON_DECOMPOSITIONS, "without Python decompositions", setup=_WITHOUT_PYTHON_DECOMPOSITIONS
            ),
            Contrast(causes.DEFAULT_PARTITIONER, "", axes=(("backend", "aot_eager_default_partitioner"),)),
        ]
    if layer is Layer.DECOMPOSITION:
        return [Contrast(causes.NO_DECOMPOSITIONS, "without decompositions", setup=_WITHOUT_DECOMPOSITIONS)]
    if layer is not Layer.DYNAMO:
        return []
    found = []
    if recipe.fullgraph:
        found.append(Contrast(causes.GRAPH_BREAKS_ALLOWED, "fullgraph=False", axes=(("fullgraph", False),)))
    if kind not in (Kind.DYNAMO_ERROR, Kind.COMPILE_ERROR):
        found.append(Contrast(causes.AFRESH, "compiled afresh for every call", setup=_AFRESH))
    return found
