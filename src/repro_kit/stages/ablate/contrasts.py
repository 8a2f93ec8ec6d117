"""Contrasts: more cells that each leave out one part of the layer at fault, to find out which part fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.model.ablation.axis import field_of, varied
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.diagnosis import (
    AFRESH,
    DEFAULT_PARTITIONER,
    GRAPH_BREAKS_ALLOWED,
    NO_ARTIFACTS,
    NO_DECOMPOSITIONS,
    NO_PYTHON_DECOMPOSITIONS,
    NOT_SPLIT_FOR_DDP,
    OPERATORS_CHECKED,
    SCHEMAS_CHECKED,
)
from repro_kit.model.ablation.layer import first_failing, name_layer
from repro_kit.model.failure.failure import Kind, Layer
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
_SCHEMAS_CHECKED = '''\
import torch
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

class SchemasChecked(TorchDispatchMode):
    """Raise SchemaMismatchError where a custom operator does to its arguments what its schema does not declare."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        schema = getattr(func, "_schema", None)
        if schema is None or func.namespace in OF_TORCH:
            return func(*args, **(kwargs or {}))
        given = {**dict(zip((argument.name for argument in schema.arguments), args)), **(kwargs or {})}
        unwritten = [
            (argument.name, tensor, tensor.clone())
            for argument in schema.arguments
            if argument.alias_info is None
            for tensor in tensors(given.get(argument.name))
        ]
        results = func(*args, **(kwargs or {}))
        for name, tensor, before in unwritten:
            if not same_bits(tensor, before):
                raise SchemaMismatchError(f"{func} writes to its argument {name!r}")
            if any(tensor.untyped_storage()._cdata == result.untyped_storage()._cdata for result in tensors(results)):
                raise SchemaMismatchError(f"{func} returns a view of its argument {name!r}")
        return results

class SchemaMismatchError(RuntimeError):
    """A custom operator does what its schema does not declare."""

OF_TORCH = {"aten", "prim", "prims", "_c10d_functional", "c10d_functional", "c10d", "fsdp", "quantized", "higher_order"}

def tensors(value):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if type(leaf) in (torch.Tensor, torch.nn.Parameter)]

def same_bits(one, other):
    return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)

def checked(graph, example_inputs):
    def run(args):
        with SchemasChecked():
            return graph.forward(*args)
    run._boxed_call = True
    return run

registry.list_backends(())  # imports them all, which a later call would register over the next line
registry._COMPILER_FNS["aot_eager"] = aot_autograd(fw_compiler=checked)
'''


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


_CHECKED = Contrast(
    OPERATORS_CHECKED,
    "with custom operators checked",
    axes=(("backend", "aot_eager_decomp_partition"), ("functorch.fake_tensor_crossref", "custom_ops")),
)
_SCHEMAS = Contrast(
    SCHEMAS_CHECKED,
    "with the schemas of custom operators checked",
    setup=_SCHEMAS_CHECKED,
    axes=(("backend", "aot_eager"),),
)


_NO_ARTIFACTS = Contrast(NO_ARTIFACTS, "without cache artifacts", setup=_WITHOUT_ARTIFACTS)
_NOT_SPLIT = Contrast(NOT_SPLIT_FOR_DDP, "optimize_ddp=False", axes=(("dynamo.optimize_ddp", False),))


def contrasts(cells: Sequence[Cell], recipe: Recipe, *, custom: bool, artifacts: bool, ddp: bool) -> list[CellPlan]:
    """The contrasts for the layer that `cells` name.

    `custom`: the subject may use operators that are not torch's. `artifacts`: it loads what an earlier run compiled.
    `ddp`: its graphs may be split as under DistributedDataParallel.
    """
    layer = name_layer(cells, recipe).layer
    failing = first_failing(cells, recipe)
    if failing is None:
        return []
    failure = failing.verdict.failure
    kind = failure.kind if failure else Kind.ACCURACY
    if kind.policy.measured:
        return []
    more = [_CHECKED, _SCHEMAS] if custom and layer in (Layer.AOT, Layer.DECOMPOSITION, Layer.INDUCTOR) else []
    more += [_NO_ARTIFACTS] if artifacts else []
    more += [_NOT_SPLIT] if ddp else []
    return [contrast.plan(failing.recipe, failing.changed) for contrast in [*_of(layer, kind, failing.recipe), *more]]


def _of(layer: Layer | None, kind: Kind, recipe: Recipe) -> list[Contrast]:
    if layer is Layer.AOT:
        return [
            Contrast(
                NO_PYTHON_DECOMPOSITIONS,
                "without Python decompositions",
                setup=_WITHOUT_PYTHON_DECOMPOSITIONS,
            ),
            Contrast(DEFAULT_PARTITIONER, "", axes=(("backend", "aot_eager_default_partitioner"),)),
        ]
    if layer is Layer.DECOMPOSITION:
        return [Contrast(NO_DECOMPOSITIONS, "without decompositions", setup=_WITHOUT_DECOMPOSITIONS)]
    if layer is not Layer.DYNAMO:
        return []
    found_contrasts = []
    if recipe.fullgraph:
        found_contrasts.append(Contrast(GRAPH_BREAKS_ALLOWED, "fullgraph=False", axes=(("fullgraph", False),)))
    if not kind.policy.in_compiler:
        found_contrasts.append(Contrast(AFRESH, "compiled afresh for every call", setup=_AFRESH))
    return found_contrasts
