"""Correct the layer that the ladder names (`layer.py`), and name the part of it that is at fault.

Both follow from the frame that raised, and from the contrasts: cells that leave one part out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.contrasts import (
    AFRESH,
    DEFAULT_PARTITIONER,
    FORMS_CHECKED,
    GRAPH_BREAKS_ALLOWED,
    HOOKS_GUARDED,
    NO_DECOMPOSITIONS,
    NO_PYTHON_DECOMPOSITIONS,
    NOT_SPLIT_FOR_DDP,
    mismatch_of,
)
from repro_kit.diagnosis.culprit import RULES, Evidence
from repro_kit.diagnosis.layer import (
    EAGER_KERNELS,
    HELD_AT_FALSE,
    OWN_CHANGE,
    TAKEN_OUT,
    USER_ERROR,
    WITNESS,
    Diagnosis,
    contrasts_of,
    first_failing,
    gone_without,
    name_layer,
    passes,
)
from repro_kit.diagnosis.promises import OwnSettings
from repro_kit.failure.failure import STATE, Failure, Layer, Phase
from repro_kit.failure.frames import torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import AT_THE_LIMIT
from repro_kit.failure.signature import RunOutcome
from repro_kit.failure.tracebacks import is_final, short
from repro_kit.recipe import Recipe

GUARDS = "guards"  # of Dynamo: they decide whether code that was compiled for an earlier call runs again
#: ``file:function`` of torch, and the part that each belongs to. The innermost frame of any of these names the part.
#: Inductor's codegen/, ir.py, sizevars.py and loop_body.py are absent: lowering, the scheduler and code generation all
#: use them, and the frames further out show which of the three was running.
PARTS = tuple(
    (re.compile(rf"torch/(?:{pattern})"), part)
    for pattern, part in (
        (r"_decomp/|_refs/|_inductor/decomposition\.py", "decomposition"),
        (r"_meta_registrations\.py|_subclasses/fake_impls\.py|_library/fake_impl\.py", "fake-kernel"),
        (r"_functorch/partitioners\.py", "partitioner"),
        (r"_functorch/_aot_autograd/functional_utils\.py", "functionalization"),
        (r"_functorch/_aot_autograd/autograd_cache\.py", "graph-cache"),
        # A mode's __torch_dispatch__ hands every operator on that anybody calls.
        (r"_functorch/_aot_autograd/(?:runtime_wrappers|subclass_\w+)\.py:(?!__torch_dispatch__$)", "runtime-wrappers"),
        (r"_dynamo/guards\.py", GUARDS),
        (r"_dynamo/side_effects\.py", "side-effects"),
        (r"_dynamo/(?:codegen|bytecode_\w+|resume_execution)\.py", "bytecode"),
        (r"_dynamo/(?:symbolic_convert|trace_rules|polyfills|variables)\b", "tracing"),
        (r"fx/experimental/symbolic_shapes\.py:(?!run_node$)", "symbolic-shapes"),  # run_node runs every operator
        (r"_inductor/(?:fx_passes/|pattern_matcher\.py)", "graph-passes"),
        (r"_inductor/(?:graph|scheduler)\.py:_?(?:codegen|compile_to)", "code-generation"),
        (r"_inductor/(?:scheduler|dependencies|memory)\.py|_inductor/graph\.py:_update_scheduler$", "scheduler"),
        (r"_inductor/(?:lowering|kernel/|graph)", "lowering"),
        (r"_inductor/(?:cpp_builder|codecache|async_compile)\.py", "native-compiler"),
    )
)
#: A file of generated code, as `code_hash` in torch/_inductor/codecache.py names it.
_GENERATED = re.compile(r"[/\\]c[a-z2-7]{51}\.py$")
#: Exceptions of Python that show a frame with wrong bytecode: after eager has passed, no user's code raises them.
_BROKEN_BYTECODE = ("SystemError", "UnboundLocalError", "NameError", "SyntaxError")
#: Exceptions by which torch says that the program may be mistaken, and what is said of them. A size that shall be
#: dynamic and is none (torch/fx/experimental/symbolic_shapes.py) does not tell who has fixed it.
_MISTAKES = {
    "ConstraintViolationError": (
        "The program asks for a size to be dynamic, and its code is compiled for one value of that size ({}). The "
        "program is at fault where its own code fixes the size, and torch where one of its operators does so without "
        "need: the message says what to change."
    ),
    "UserError": (  # torch/_dynamo/exc.py
        "Torch counts the failure among the mistakes of a program (UserError; {}): the message says what to change."
    ),
}
_WARNS = (
    "The program turns warnings into errors, and this one comes for compiled code only ({}). The program is at fault "
    "where the warning says what to change in it, and torch where it warns without need."
)
_IN_THE_BRANCH = (
    " It passes with torch.compiler.is_compiling() held at False: the code that the script runs only when compiled is "
    "needed for the failure."
)
_ALTERS_HOOKS = (
    "The program gives hooks to a module, or takes them from it, after the module was compiled. torch watches for that "
    "only where it is asked to: with torch._dynamo.config.skip_nnmodule_hook_guards = False the program passes, so the "
    "compiler is not to blame."
)
_RIGHT_GRAPH = (
    " It passes {}, too; the graph that these lead to is right, since it passes with eager's kernels for its operators."
)
#: With these a fake kernel rightly says that it has no value to give: whoever asked for one is at fault.
_NO_VALUE = ("DataDependentOutputException", "DynamicOutputShapeException")
PART_WORDS = {
    "decomposition": "a decomposition",
    "fake-kernel": "an operator's fake kernel",
    "custom-operator": "a custom operator",
    "partitioner": "the partitioner",
    "functionalization": "functionalization",
    "graph-cache": "the graph cache",
    "runtime-wrappers": "the runtime wrappers around the graph",
    GUARDS: "guards",
    "side-effects": "side effects",
    "bytecode": "the bytecode that it generates",
    "tracing": "tracing",
    "graph-break": "a graph break under fullgraph=True",
    "recompile-limit": "the recompile limit",
    "symbolic-shapes": "symbolic shapes",
    "graph-passes": "graph passes",
    "lowering": "lowering",
    "scheduler": "the scheduler",
    "code-generation": "code generation",
    "native-compiler": "code that does not compile",
}


def diagnose(cells: Sequence[Cell], recipe: Recipe, own: OwnSettings | None = None) -> Diagnosis:
    """The layer at fault and its part, as the cells show them. `recipe` and `own` settings are the subject's."""
    plain, failing = name_layer(cells, recipe), first_failing(cells, recipe)
    if failing is None or plain.layer in (Layer.USER, Layer.BACKEND):
        return plain
    contrasts = contrasts_of(cells)
    evidence = Evidence(plain, failing, contrasts, own or OwnSettings())
    other = next(filter(None, (rule(evidence) for rule in RULES)), None)
    if plain.layer is None:
        return other if other is not None and other.layer is Layer.USER else plain
    if other is not None:
        return other
    if passes(contrasts, HOOKS_GUARDED):
        return Diagnosis(Layer.USER, OWN_CHANGE, _ALTERS_HOOKS)
    in_layer = _in_layer(plain, contrasts, evidence.failure)
    if in_layer.cause == "tracing" and _needs_symbolic_sizes(cells, failing):
        in_layer = _with_cause(plain, "symbolic-shapes")
    return _with_remarks(in_layer, evidence)


def _with_remarks(diagnosis: Diagnosis, evidence: Evidence) -> Diagnosis:
    """The diagnosis, and what else the cells and the failure show."""
    shown, contrasts, failure = diagnosis.evidence, evidence.contrasts, evidence.failure
    if evidence.called is not None:
        shown += f", while {evidence.called.words} was running"
    if passes(contrasts, NOT_SPLIT_FOR_DDP):
        shown += ", and passes if Dynamo does not split graphs for DDP (optimize_ddp=False)"
    names = [short(link.type) for link in failure.exceptions] if failure is not None else []
    said = next((_MISTAKES[name] for name in names if name in _MISTAKES), "")
    if failure is not None and failure.kind is Kind.WARNING:
        said = _WARNS
    if said:
        diagnosis = replace(diagnosis, cause=USER_ERROR, reason=said.format(shown))
    remarks = _IN_THE_BRANCH if passes(contrasts, HELD_AT_FALSE) else ""
    innocent = gone_without(contrasts) if passes(contrasts, EAGER_KERNELS) else []
    if innocent:
        remarks += _RIGHT_GRAPH.format(" or ".join(f"without {TAKEN_OUT[kind]}" for kind in innocent))
    return replace(diagnosis, evidence=shown, remarks=remarks)


def _in_layer(plain: Diagnosis, contrasts: Mapping[str, Cell], failure: Failure | None) -> Diagnosis:
    promised = mismatch_of(contrasts, FORMS_CHECKED)
    if promised:
        name, _, what = promised.partition(" ")
        return plain.renamed(Layer.DECOMPOSITION, "fake-kernel", f"The fake kernel of {name}", f"and {name} {what}")
    match plain.layer:
        case Layer.AOT:
            return _of_aot(plain, contrasts, failure)
        case Layer.DECOMPOSITION:
            return _of_decomposition(plain, contrasts, failure)
        case Layer.DYNAMO:
            cause = _dynamo_cause(contrasts, failure)
        case _:
            cause = part_of(failure) if failure else ""
    return _with_cause(plain, cause)


def _needs_symbolic_sizes(cells: Sequence[Cell], failing: Cell) -> bool:
    """Whether the failing backend passes with fewer symbolic sizes: the same code is traced right with numbers."""
    fewer = {True: (None, False), None: (False,)}.get(failing.recipe.dynamic, ())
    return any(
        cell.outcome is RunOutcome.PASSES and not (cell.inferred or cell.no_effect)
        for cell in cells
        if cell.compiled and set(cell.changed) <= {"backend", "dynamic"}
        if cell.recipe.dynamic in fewer and cell.recipe == replace(failing.recipe, dynamic=cell.recipe.dynamic)
    )


def part_of(failure: Failure) -> str:
    """The part of the stack that raised, or that was running when the process was killed; "" if no frame shows one."""
    link = failure.exceptions[-1] if failure.exceptions else None
    if link is not None and is_final(link):
        return "native-compiler"
    if not failure.exceptions and any(_GENERATED.search(frame.file) for frame in failure.stack):
        return ""  # generated code was running, and what calls it or is called by it did not make it
    stacks = [exception.frames for exception in reversed(failure.exceptions)] or [failure.stack]
    for frames in stacks:
        for frame in reversed(frames):
            if _GENERATED.search(frame.file):
                return ""  # what calls generated code did not make it
            place = f"{torch_path(frame.file) or ''}:{frame.function}"
            part = next((part for pattern, part in PARTS if pattern.match(place)), "")
            if part and not (part == "fake-kernel" and link is not None and short(link.type) in _NO_VALUE):
                return part
    return ""


def _of_aot(plain: Diagnosis, contrasts: Mapping[str, Cell], failure: Failure | None) -> Diagnosis:
    if passes(contrasts, NO_PYTHON_DECOMPOSITIONS):
        evidence = "and passes without the decompositions that are written in Python"
        return plain.renamed(Layer.DECOMPOSITION, "decomposition", "A decomposition used while tracing", evidence)
    if passes(contrasts, DEFAULT_PARTITIONER):
        return plain.renamed(Layer.AOT, "partitioner", "AOTAutograd's partitioner", "and passes with the default one")
    cause = part_of(failure) if failure else ""
    if cause == "decomposition" and NO_PYTHON_DECOMPOSITIONS not in contrasts:
        return plain.renamed(Layer.DECOMPOSITION, cause, "A decomposition used while tracing", "in a decomposition")
    return _with_cause(plain, "" if cause == "decomposition" else cause)


def _of_decomposition(plain: Diagnosis, contrasts: Mapping[str, Cell], failure: Failure | None) -> Diagnosis:
    without = contrasts.get(NO_DECOMPOSITIONS)
    if passes(contrasts, NO_DECOMPOSITIONS):
        return plain.renamed(Layer.DECOMPOSITION, "decomposition", "A decomposition", "and passes without them")
    if without is not None and without.same:
        evidence = "and fails without decompositions too"
        return plain.renamed(Layer.AOT, "partitioner", "AOTAutograd's partitioner", evidence)
    return _with_cause(plain, part_of(failure) if failure else "")


def _dynamo_cause(contrasts: Mapping[str, Cell], failure: Failure | None) -> str:
    names = {short(link.type) for link in failure.exceptions} if failure is not None else set()
    if AT_THE_LIMIT in names:
        return "recompile-limit"
    if passes(contrasts, GRAPH_BREAKS_ALLOWED):
        return "graph-break"
    if passes(contrasts, AFRESH):
        return GUARDS
    if failure is None:
        return ""
    if names & {"GuardOnDataDependentSymNode", "PendingUnbackedSymbolNotFound"}:
        return "symbolic-shapes"
    if failure.kind is Kind.DYNAMO_ERROR or failure.phase is Phase.COMPILE:
        return part_of(failure) or "tracing"
    root = failure.exceptions[-1] if failure.exceptions else None
    if failure.kind is Kind.CRASH or (root and short(root.type) in _BROKEN_BYTECODE):
        return "bytecode"
    if failure.difference is not None and failure.difference.kind == STATE:
        return "side-effects"
    witness = contrasts.get(WITNESS)
    parting = witness.changed.get("parting") if witness else None
    return {"state": "side-effects", "result": "tracing"}.get(str(parting), "")


def _with_cause(plain: Diagnosis, cause: str) -> Diagnosis:
    if not cause:
        return plain
    return replace(plain, cause=cause, part=PART_WORDS[cause])
