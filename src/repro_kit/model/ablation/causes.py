"""Correct the layer that the ladder names (`layer.py`), and name the part of it that is at fault.

Both follow from the frame that raised, and from the contrasts: cells that leave one part out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.layer import first_failing, name_layer
from repro_kit.model.ablation.requested_break import asks_for_break
from repro_kit.model.ablation.script_code import SCRIPT_CODE, ScriptCode, script_code, what_happened
from repro_kit.model.failure.failure import STATE, Failure, Kind, Layer, Phase
from repro_kit.model.failure.frames import torch_path
from repro_kit.model.failure.late_errors import is_overwritten
from repro_kit.model.failure.tracebacks import is_final, short
from repro_kit.model.recipe import Recipe
from repro_kit.model.run_outcome import RunOutcome

#: Contrasts: cells that leave one part out. `Cell.changed["contrast"]` holds one of these names.
NO_PYTHON_DECOMPOSITIONS = "no-python-decompositions"
DEFAULT_PARTITIONER = "default-partitioner"
NO_DECOMPOSITIONS = "no-decompositions"
AFRESH = "afresh"
OPERATORS_CHECKED = "operators-checked"  # the fake kernels of custom operators are compared with the real kernels
SCHEMAS_CHECKED = "schemas-checked"  # what custom operators do to their arguments is compared with their schemas
NO_ARTIFACTS = "no-artifacts"  # what an earlier run compiled is not loaded
NOT_SPLIT_FOR_DDP = "not-split-for-ddp"  # Dynamo does not split graphs by the buckets of DDP
GRAPH_BREAKS_ALLOWED = "graph-breaks-allowed"
WITNESS = "witness"  # compiled calls compared with eager's (`model/ablation/parting.py`); see ``changed["parting"]``

#: What the reduced script is told where it asks torch.compiler.is_compiling() and the like.
HELD_AT_FALSE, HELD_AT_TRUE = "held-at-false", "held-at-true"
HELD = {HELD_AT_FALSE: False, HELD_AT_TRUE: True}
#: The cause in an ablation whose sentence says that the script does another thing when compiled.
OWN_BRANCH = "own-branch"
#: The cause in an ablation whose sentence says that the script reads an output that a CUDA graph has overwritten.
OVERWRITTEN = "overwritten-output"
REQUESTED_BREAK = "requested-break"

#: ``file:function`` of torch, and the part that each belongs to. The innermost frame of any of these names the part.
#: Inductor's codegen/, ir.py, sizevars.py and loop_body.py are absent: lowering, the scheduler and code generation all
#: use them, and the frames further out tell which of the three was running.
PARTS = tuple(
    (re.compile(rf"torch/(?:{pattern})"), part)
    for pattern, part in (
        (r"_decomp/|_refs/|_inductor/decomposition\.py", "decomposition"),
        (r"_meta_registrations\.py|_subclasses/fake_impls\.py|_library/fake_impl\.py", "fake-kernel"),
        (r"_functorch/partitioners\.py", "partitioner"),
        (r"_functorch/_aot_autograd/functional_utils\.py", "functionalization"),
        (r"_functorch/_aot_autograd/autograd_cache\.py", "graph-cache"),
        (r"_functorch/_aot_autograd/(?:runtime_wrappers|subclass_\w+)\.py", "runtime-wrappers"),
        (r"_dynamo/guards\.py", "guards"),
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
_MISMATCH = re.compile(r"the output of ([\w.]+) on FakeTensor")
_BY_INTENT = (
    "The script asks whether it is being compiled, and then does another thing: it passes with torch.compiler."
    "is_compiling() held at False, and with that held at True everywhere too, so the compiler is not to blame."
)
_OVERWRITTEN = (
    "The script reads an output of compiled code after a later call, in which a CUDA graph writes to the same memory: "
    "the compiler is not to blame. Clone the output, or call torch.compiler.cudagraph_mark_step_begin() before each "
    "call."
)
_ASKS_FOR_A_BREAK = (
    "The program asks for a graph break itself (torch._dynamo.graph_break()), and fullgraph=True refuses every break: "
    "the compiler is not to blame."
)
#: Exceptions whose message tells the user what to change (torch/_dynamo/exc.py, torch/fx/.../symbolic_shapes.py).
_FOR_THE_USER = {
    "UserError": " torch counts it among the mistakes of a program (UserError): the message says what to change.",
    "ConstraintViolationError": " The program asks for a size to be dynamic, and its code is compiled for one value of "
    "that size: the message says what to change.",
}
_IN_THE_BRANCH = (
    " It passes with torch.compiler.is_compiling() held at False: the code that the script runs only when compiled is "
    "needed for the failure."
)
PART_WORDS = {
    "decomposition": "a decomposition",
    "fake-kernel": "an operator's fake kernel",
    "custom-operator": "the fake kernel of a custom operator",
    "partitioner": "the partitioner",
    "functionalization": "functionalization",
    "graph-cache": "the graph cache",
    "runtime-wrappers": "the runtime wrappers around the graph",
    "guards": "guards",
    "side-effects": "side effects",
    "bytecode": "the bytecode that it generates",
    "tracing": "tracing",
    "graph-break": "a graph break under fullgraph=True",
    "recompile-limit": "the recompile limit",
    "recompile": "a recompile under error_on_recompile=True",
    "symbolic-shapes": "symbolic shapes",
    "graph-passes": "graph passes",
    "lowering": "lowering",
    "scheduler": "the scheduler",
    "code-generation": "code generation",
    "native-compiler": "code that does not compile",
}


@dataclass(frozen=True)
class Diagnosis:
    """The layer at fault, the part of that layer (empty: not known), and a sentence that names both."""

    layer: Layer | None
    cause: str
    sentence: str


def diagnose(cells: Sequence[Cell], recipe: Recipe) -> Diagnosis:
    """The layer at fault and its part, as the cells show them. `recipe` is the subject's own."""
    layer, sentence = name_layer(cells, recipe)
    plain = Diagnosis(layer, "", sentence)
    failing = first_failing(cells, recipe)
    failure = failing.verdict.failure if failing else None
    if failing is None or layer in (None, Layer.USER, Layer.BACKEND):
        return plain
    if failure is not None and any(is_overwritten(link.message) for link in failure.exceptions):
        return Diagnosis(Layer.USER, OVERWRITTEN, _OVERWRITTEN)
    if failure is not None and _in_users_fake_kernel(failure):
        reason = (
            f"The user's own fake kernel of {failure.op or 'a custom operator'} raises: the compiler is not to blame."
        )
        return Diagnosis(Layer.USER, "custom-operator", reason)
    if failure is not None and asks_for_break(failure):
        return Diagnosis(Layer.USER, REQUESTED_BREAK, _ASKS_FOR_A_BREAK)
    called = script_code(failure) if failure is not None else None
    if called is not None and failure is not None and _was_at_it(called, failure, failing):
        return _of_script(plain, called, failure)
    contrasts = {str(cell.changed["contrast"]): cell for cell in cells if "contrast" in cell.changed}
    breach = _breach_of_schema(contrasts)
    if breach and failure is not None and failure.kind not in (Kind.DYNAMO_ERROR, Kind.COMPILE_ERROR):
        reason = f"The custom operator {breach}, and its schema does not say so: the compiler is not to blame."
        return Diagnosis(Layer.USER, "custom-operator", reason)
    if _passes(contrasts, NO_ARTIFACTS):
        who = "A cache artifact that the script loads (torch.compiler.load_cache_artifacts)"
        return _renamed(plain, layer, "graph-cache", who, "and passes where nothing is loaded and all is compiled anew")
    if _passes(contrasts, HELD_AT_FALSE) and _passes(contrasts, HELD_AT_TRUE):
        return Diagnosis(Layer.USER, OWN_BRANCH, _BY_INTENT)
    lying = _lying_operator(contrasts)
    if lying and failure is not None and any(lying.rpartition(".")[0] in link.message for link in failure.exceptions):
        reason = (
            f"The fake kernel of {lying} does not describe what the operator returns: the compiler is not to blame."
        )
        return Diagnosis(Layer.USER, "custom-operator", reason)
    in_layer = _in_layer(plain, layer, contrasts, failure)
    if in_layer.cause == "tracing" and _needs_symbolic_sizes(cells, failing):
        in_layer = _with_cause(plain, "symbolic-shapes")
    diagnosis = _with_remarks(in_layer, contrasts, called, failure)
    if lying and not _passes(contrasts, HELD_AT_FALSE):
        note = f" The fake kernel of {lying} does not describe what the operator returns; this may be the reason."
        return replace(diagnosis, sentence=diagnosis.sentence + note)
    return diagnosis


def _with_remarks(
    diagnosis: Diagnosis, contrasts: dict[str, Cell], called: ScriptCode | None, failure: Failure | None
) -> Diagnosis:
    """The diagnosis, and what else the cells and the failure show."""
    sentence = diagnosis.sentence
    if called is not None:
        sentence = sentence.rstrip(".") + f", while {called.words} was running."
    if _passes(contrasts, NOT_SPLIT_FOR_DDP):
        sentence = (
            sentence.rstrip(".") + ", and passes where Dynamo does not split graphs for DDP (optimize_ddp=False)."
        )
    names = [short(link.type) for link in failure.exceptions] if failure is not None else []
    sentence += next((_FOR_THE_USER[name] for name in names if name in _FOR_THE_USER), "")
    if _passes(contrasts, HELD_AT_FALSE):
        sentence += _IN_THE_BRANCH
    return replace(diagnosis, sentence=sentence)


def _in_layer(plain: Diagnosis, layer: Layer | None, contrasts: dict[str, Cell], failure: Failure | None) -> Diagnosis:
    match layer:
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
            if part:
                return part
    return ""


def _of_aot(plain: Diagnosis, contrasts: dict[str, Cell], failure: Failure | None) -> Diagnosis:
    if _passes(contrasts, NO_PYTHON_DECOMPOSITIONS):
        evidence = "and passes without the decompositions that are written in Python"
        return _renamed(plain, Layer.DECOMPOSITION, "decomposition", "A decomposition used while tracing", evidence)
    if _passes(contrasts, DEFAULT_PARTITIONER):
        return _renamed(plain, Layer.AOT, "partitioner", "AOTAutograd's partitioner", "and passes with the default one")
    cause = part_of(failure) if failure else ""
    if cause == "decomposition" and NO_PYTHON_DECOMPOSITIONS not in contrasts:
        return _renamed(plain, Layer.DECOMPOSITION, cause, "A decomposition used while tracing", "in a decomposition")
    return _with_cause(plain, "" if cause == "decomposition" else cause)


def _of_decomposition(plain: Diagnosis, contrasts: dict[str, Cell], failure: Failure | None) -> Diagnosis:
    without = contrasts.get(NO_DECOMPOSITIONS)
    if _passes(contrasts, NO_DECOMPOSITIONS):
        return _renamed(plain, Layer.DECOMPOSITION, "decomposition", "A decomposition", "and passes without them")
    if without is not None and without.same:
        evidence = "and fails without decompositions too"
        return _renamed(plain, Layer.AOT, "partitioner", "AOTAutograd's partitioner", evidence)
    return _with_cause(plain, part_of(failure) if failure else "")


def _dynamo_cause(contrasts: dict[str, Cell], failure: Failure | None) -> str:
    names = {short(link.type) for link in failure.exceptions} if failure is not None else set()
    if "FailOnRecompileLimitHit" in names:
        return "recompile-limit"
    if "RecompileError" in names:
        return "recompile"
    if _passes(contrasts, GRAPH_BREAKS_ALLOWED):
        return "graph-break"
    if _passes(contrasts, AFRESH):
        return "guards"
    if failure is None:
        return ""
    if names & {"GuardOnDataDependentSymNode", "PendingUnbackedSymbolNotFound", "ConstraintViolationError"}:
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


def _lying_operator(contrasts: dict[str, Cell]) -> str:
    """The custom operator whose fake kernel describes other metadata than its results have; "" when there is none."""
    for message in _messages(contrasts.get(OPERATORS_CHECKED), "MetadataMismatchError"):
        mismatch = _MISMATCH.search(message)
        if mismatch and not mismatch.group(1).startswith("_c10d_functional."):  # torch's own, which return their input
            return mismatch.group(1)
    return ""


def _breach_of_schema(contrasts: dict[str, Cell]) -> str:
    """A custom operator and what that does to an argument against its own schema; "" when there is none."""
    return next(iter(_messages(contrasts.get(SCHEMAS_CHECKED), "SchemaMismatchError")), "")


def _messages(cell: Cell | None, exception: str) -> list[str]:
    """The messages of the exceptions of the type `exception` that `cell` ended with, if that failed otherwise."""
    failure = cell.verdict.failure if cell and not cell.same else None
    return [link.message for link in (failure.exceptions if failure else ()) if short(link.type) == exception]


def _in_users_fake_kernel(failure: Failure) -> bool:
    """Whether the innermost frame is the user's and runs inside torch's caller of fake kernels."""
    for link in reversed(failure.exceptions):
        paths = [torch_path(frame.file) for frame in link.frames]
        called = [at for at, path in enumerate(paths) if path and path.startswith("torch/_library/fake_impl.py")]
        if called:
            return not any(paths[called[-1] + 1 :]) and called[-1] + 1 < len(paths)
    return False


def _was_at_it(called: ScriptCode, failure: Failure, cell: Cell) -> bool:
    """Whether the function of the script was running itself, and not what it had called in torch.

    An exception of an operator may be its answer to what the compiler gave it. A function that hangs calls torch in its
    loop; a program has that function only where the graph alone does not fail.
    """
    if failure.exceptions:
        return not called.beyond and not called.is_operator
    return not called.beyond or (failure.kind is Kind.TIMEOUT and cell.subject == "program")


def _of_script(plain: Diagnosis, called: ScriptCode, failure: Failure) -> Diagnosis:
    _, _, rest = plain.sentence.partition(" is at fault")
    beyond = f" and had called {called.beyond} of torch" if called.beyond else ""
    who = f"{called.words[0].upper()}{called.words[1:]}"
    return Diagnosis(plain.layer, SCRIPT_CODE, f"{who} {what_happened(failure)}{beyond}{rest}")


def _passes(contrasts: dict[str, Cell], name: str) -> bool:
    return name in contrasts and contrasts[name].outcome is RunOutcome.PASSES


def _renamed(plain: Diagnosis, layer: Layer | None, cause: str, who: str, evidence: str) -> Diagnosis:
    _, _, rest = plain.sentence.partition(" is at fault")
    return Diagnosis(layer, cause, f"{who} is at fault{rest.rstrip('.')}, {evidence}.")


def _with_cause(plain: Diagnosis, cause: str) -> Diagnosis:
    if not cause:
        return plain
    sentence = plain.sentence.replace(" is at fault", f" is at fault ({PART_WORDS[cause]})", 1)
    return replace(plain, cause=cause, sentence=sentence)
