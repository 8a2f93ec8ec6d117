"""Contrasts: cells that each leave out one part of the layer at fault. `causes.py` reads their verdicts.

To add one, give it a name, add a row to `CONTRASTS`, and read its cell in the function of `causes.py` for its layer, or
in a rule of `other_culprits.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from repro_kit.model.ablation.axis import field_of, varied
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.layer import first_failing, name_layer
from repro_kit.model.failure.failure import MEASURED, Kind, Layer
from repro_kit.model.recipe import Recipe

NO_PYTHON_DECOMPOSITIONS = "no-python-decompositions"
DEFAULT_PARTITIONER = "default-partitioner"
NO_DECOMPOSITIONS = "no-decompositions"
AFRESH = "afresh"
OPERATORS_CHECKED = "operators-checked"  # the fake kernels of custom operators are compared with the real kernels
SCHEMAS_CHECKED = "schemas-checked"  # what custom operators do to their arguments is compared with their schemas
NO_ARTIFACTS = "no-artifacts"  # what an earlier run compiled is not loaded
NOT_SPLIT_FOR_DDP = "not-split-for-ddp"  # Dynamo does not split graphs by the buckets of DDP
GRAPH_BREAKS_ALLOWED = "graph-breaks-allowed"

_CUSTOM = re.compile(r"torch\.library\b|\bcustom_op\b|torch\.ops\.(?!aten\b|prims\b|higher_order\b)\w+\.\w")
_DDP = re.compile(r"\bDistributedDataParallel\b|\bDDP\b|\bAccelerator\b")

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
    """A contrast: when it is tried, and its changes to the failing cell."""

    name: str
    words: str  # that follow the backend in the name of the cell
    layers: tuple[Layer, ...] = ()  # at which it is tried; empty: at any
    mentions: re.Pattern[str] | None = None  # it is tried only if the text of the subject has this
    applies: Callable[[Kind, Recipe], bool] = lambda kind, recipe: True
    setup: str = ""  # Python code that runs in the user's interpreter before anything is compiled
    axes: tuple[tuple[str, object], ...] = ()

    def plan(self, failing: Cell) -> CellPlan:
        """The plan of the contrast to the cell `failing`."""
        recipe, axes = failing.recipe, {**failing.changed, **dict(self.axes)}
        for axis, value in self.axes:
            recipe = varied(recipe, axis, value)
        name = f"{recipe.backend} {self.words}".strip()
        overridden = tuple(dict.fromkeys(map(field_of, axes)))
        return CellPlan(name, recipe, overridden=overridden, axes={**axes, "contrast": self.name}, setup=self.setup)


_AFTER_DYNAMO = (Layer.AOT, Layer.DECOMPOSITION, Layer.INDUCTOR)
CONTRASTS = (
    Contrast(
        NO_PYTHON_DECOMPOSITIONS,
        "without Python decompositions",
        (Layer.AOT,),
        setup=_WITHOUT_PYTHON_DECOMPOSITIONS,
    ),
    Contrast(DEFAULT_PARTITIONER, "", (Layer.AOT,), axes=(("backend", "aot_eager_default_partitioner"),)),
    Contrast(NO_DECOMPOSITIONS, "without decompositions", (Layer.DECOMPOSITION,), setup=_WITHOUT_DECOMPOSITIONS),
    Contrast(
        GRAPH_BREAKS_ALLOWED,
        "fullgraph=False",
        (Layer.DYNAMO,),
        applies=lambda kind, recipe: recipe.fullgraph,
        axes=(("fullgraph", False),),
    ),
    Contrast(
        AFRESH,
        "compiled afresh for every call",
        (Layer.DYNAMO,),
        applies=lambda kind, recipe: kind not in (Kind.DYNAMO_ERROR, Kind.COMPILE_ERROR),
        setup=_AFRESH,
    ),
    Contrast(
        OPERATORS_CHECKED,
        "with custom operators checked",
        _AFTER_DYNAMO,
        _CUSTOM,
        axes=(("backend", "aot_eager_decomp_partition"), ("functorch.fake_tensor_crossref", "custom_ops")),
    ),
    Contrast(
        SCHEMAS_CHECKED,
        "with the schemas of custom operators checked",
        _AFTER_DYNAMO,
        _CUSTOM,
        setup=_SCHEMAS_CHECKED,
        axes=(("backend", "aot_eager"),),
    ),
    Contrast(
        NO_ARTIFACTS, "without cache artifacts", mentions=re.compile("load_cache_artifacts"), setup=_WITHOUT_ARTIFACTS
    ),
    Contrast(NOT_SPLIT_FOR_DDP, "optimize_ddp=False", mentions=_DDP, axes=(("dynamo.optimize_ddp", False),)),
)


def contrasts(cells: Sequence[Cell], recipe: Recipe, texts: Iterable[str]) -> list[CellPlan]:
    """The contrasts for the layer that `cells` name. `recipe` and `texts`: of the subject."""
    layer, _ = name_layer(cells, recipe)
    failing = first_failing(cells, recipe)
    failure = failing.verdict.failure if failing else None
    kind, text = failure.kind if failure else Kind.ACCURACY, "\n".join(texts)
    if failing is None or kind in MEASURED:
        return []
    return [
        contrast.plan(failing)
        for contrast in CONTRASTS
        if not contrast.layers or layer in contrast.layers
        if contrast.mentions is None or contrast.mentions.search(text)
        if contrast.applies(kind, failing.recipe)
    ]
