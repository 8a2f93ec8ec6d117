"""Contrasts: cells that each leave out one part of the layer at fault. `causes.py` reads their verdicts.

To add one, give it a name, add a row to `CONTRASTS`, and read its cell in the function of `causes.py` for its layer, or
in a rule of `culprit.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from repro_kit.diagnosis.axes import field_of, varied
from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.diagnosis.layer import first_failing, name_layer
from repro_kit.failure.failure import Failure, Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.tracebacks import short
from repro_kit.recipe import Recipe

NO_PYTHON_DECOMPOSITIONS = "no-python-decompositions"
DEFAULT_PARTITIONER = "default-partitioner"
NO_DECOMPOSITIONS = "no-decompositions"
AFRESH = "afresh"
OPERATORS_CHECKED = "operators-checked"  # in eager: does each operator of the program do what it says?
FORMS_CHECKED = "forms-checked"  # in eager: does each operator return the form that it promises with fake tensors?
WITHOUT_OPERATORS = "without-operators"  # the program's operators are in no graph
NO_ARTIFACTS = "no-artifacts"  # what an earlier run compiled is not loaded
NOT_SPLIT_FOR_DDP = "not-split-for-ddp"  # Dynamo does not split graphs by the buckets of DDP
GRAPH_BREAKS_ALLOWED = "graph-breaks-allowed"
HOOKS_GUARDED = "hooks-guarded"  # Dynamo compiles again where a module has other hooks

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
        applies=lambda kind, recipe: not kind.policy.in_compiler,
        setup=_AFRESH,
    ),
    Contrast(
        HOOKS_GUARDED,
        "skip_nnmodule_hook_guards=False",
        (Layer.DYNAMO,),
        mentions=re.compile(r"register_\w*hook"),
        applies=lambda kind, recipe: kind.policy.compared,
        axes=(("dynamo.skip_nnmodule_hook_guards", False),),
    ),
    Contrast(
        NO_ARTIFACTS, "without cache artifacts", mentions=re.compile("load_cache_artifacts"), setup=_WITHOUT_ARTIFACTS
    ),
    Contrast(NOT_SPLIT_FOR_DDP, "optimize_ddp=False", mentions=_DDP, axes=(("dynamo.optimize_ddp", False),)),
)


def contrasts(cells: Sequence[Cell], recipe: Recipe, texts: Iterable[str]) -> list[CellPlan]:
    """The contrasts for the layer that `cells` name. `recipe` and `texts`: of the subject."""
    layer = name_layer(cells, recipe).layer
    failing = first_failing(cells, recipe)
    failure = failing.verdict.failure if failing else None
    kind, text = failure.kind if failure else Kind.ACCURACY, "\n".join(texts)
    if failing is None or kind.policy.measured:
        return []
    return [
        contrast.plan(failing)
        for contrast in CONTRASTS
        if not contrast.layers or layer in contrast.layers
        if contrast.mentions is None or contrast.mentions.search(text)
        if contrast.applies(kind, failing.recipe)
    ]


def mismatch_of(contrasts: Mapping[str, Cell], name: str = OPERATORS_CHECKED) -> str:
    """What an operator does otherwise than it says, in words, as the contrast `name` shows; "" where none is known."""
    cell = contrasts.get(name)
    return mismatch_in(cell.verdict.failure) if cell else ""


def mismatch_in(failure: Failure | None) -> str:
    """What an operator does otherwise than it says, where `failure` is of a run that checks the operators."""
    links = failure.exceptions if failure else ()
    return next((link.message for link in links if short(link.type) == "OperatorMismatch"), "")
