"""Contrasts that need more than a changed recipe: another text of the script, two runs compared, several cells."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from repro_kit.diagnosis.axes import varied
from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.diagnosis.contrasts import AFRESH, FORMS_CHECKED, OPERATORS_CHECKED, WITHOUT_OPERATORS, mismatch_of
from repro_kit.diagnosis.culprit import may_be_interrupted
from repro_kit.diagnosis.layer import (
    EAGER_AT_TRUE,
    EAGER_KERNELS,
    FORGETFUL_EAGER,
    HELD,
    INTERPRETED,
    INTERPRETERS,
    INTERRUPTIONS,
    OF_STATE,
    PROMISES,
    REBUILT_EAGER,
    TAKEN_OUT,
    WITHOUT_CHANGES,
    WITNESS,
    contrasts_of,
    first_failing,
    is_own,
    name_layer,
    passes,
)
from repro_kit.diagnosis.promises import withdrawn
from repro_kit.errors import StageError
from repro_kit.failure.differences import first_differing_call
from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome
from repro_kit.probe import setup_of
from repro_kit.probe.repro_probe.protocol.findings import WITNESS as WITNESS_FILE
from repro_kit.probe.repro_probe.protocol.findings import WitnessedCall, finding
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.probe.repro_probe.protocol.recipe_data import ENTRIES
from repro_kit.recipe import LADDER, Recipe
from repro_kit.serialize import loads
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.script_cells import OnReducedScript, OnScript
from repro_kit.verdicts import eager_run

#: Failures that show when a graph has run.
_OF_RUNS = (Kind.ACCURACY, Kind.RUNTIME_ERROR, Kind.CRASH)
_COMPILING = frozenset({"is_compiling", "is_dynamo_compiling"})
#: The functions of torch whose answer a layer changes.
_ASKED = {Layer.DYNAMO: _COMPILING, Layer.EXPORT: _COMPILING | {"is_exporting"}}
#: Not where the program has a scheduler pass: eager's kernels give that nothing to do.
_EAGER_KERNELS = """\
from torch._inductor import config
from torch._inductor.compiler_bisector import CompilerBisector

def uses_eager(*names):
    own = any(getattr(config, f"_{when}_fusion_custom_pass", None) for when in ("pre", "post"))
    return names[:2] == ("inductor", "lowerings") and not own

CompilerBisector.bisection_enabled = True  # the graph cache is not used
CompilerBisector.disable_subsystem = staticmethod(uses_eager)
"""
#: Differences in what a result is, which tracing with fake tensors decides.
_FORMS = ("shape", "dtype", "stride")


def with_graphs_interpreted(subject: Cells, cells: Sequence[Cell], recipe: Recipe) -> list[Cell]:
    """`cells`, and the first weaker backends that fail alike with their graph interpreted.

    If that passes, the weaker backend's cells count as another failure, and the next one is tried.
    """
    failing = {cell.recipe.backend: cell for cell in cells if is_own(cell, recipe) and cell.same}
    known = list(cells)
    if recipe.backend not in failing:
        return known
    for backend in takewhile(lambda name: name != recipe.backend, LADDER):
        failure = failing[backend].verdict.failure if backend in failing else None
        if failure is None or failure.kind not in _OF_RUNS:
            continue
        plan = CellPlan(
            f"{backend} with its graph interpreted",
            varied(recipe, "backend", backend),
            overridden=("backend",),
            axes={"backend": backend, "contrast": f"{INTERPRETED}: {backend}"},
            setup=INTERPRETERS,
        )
        (interpreted,) = subject.run([plan])
        if interpreted.outcome is not RunOutcome.PASSES:
            return [*known, interpreted]
        known = [replace(it, same=False) if it.compiled and it.recipe.backend == backend else it for it in known]
        known.append(interpreted)
    return known


def special_contrasts(subject: Cells, cells: Sequence[Cell], recipe: Recipe) -> Iterator[Cell]:
    """The cells of this module that apply to the layer that `cells` name."""
    layer = name_layer(cells, recipe).layer
    failing = first_failing(cells, recipe)
    if failing is None:
        return
    asked = _ASKED.get(layer) if layer else None
    if layer is Layer.DYNAMO and isinstance(subject, OnScript) and not passes(contrasts_of(cells), AFRESH):
        yield from witness(subject, failing)
    if asked is not None and isinstance(subject, OnReducedScript):
        yield from forced_is_compiling(subject, failing, asked)
    failure = failing.verdict.failure
    if layer not in (Layer.USER, Layer.BACKEND) and not (failure is not None and failure.kind.policy.measured):
        yield from taken_out(subject, failing)
    wrong = failure.difference.kind if failure is not None and failure.difference is not None else ""
    if subject.subject == "program" and wrong in _FORMS and layer not in (Layer.USER, Layer.BACKEND, Layer.DYNAMO):
        check, axes = setup_of("own_operators", "check_forms()"), {"contrast": FORMS_CHECKED}
        name = "eager with forms checked"
        yield from subject.run([CellPlan(name, failing.recipe, compiled=False, axes=axes, setup=check)])


def _plan(failing: Cell, name: str, contrast: str, setup: str = "") -> CellPlan:
    axes = {**failing.changed, "contrast": contrast}
    return CellPlan(name, failing.recipe, overridden=tuple(failing.changed), axes=axes, setup=setup)


def witness(script: OnScript, failing: Cell) -> list[Cell]:
    """A cell whose note names the first difference between backend 'eager' and no torch.compile in a wrong result."""
    failure = failing.verdict.failure
    if failure is None or failure.kind is not Kind.ACCURACY:
        return []
    plan = _plan(failing, "eager beside no torch.compile", WITNESS)
    cached = script.settled(plan)
    if cached is not None:
        return [cached]
    difference = first_differing_call(
        _calls(script, "witness-plain", eager_run.PROBE, eager_run.EAGER_VARIABLES),
        _calls(script, "witness-eager", {"backend": "eager"}, {}),
    )
    if difference is not None and difference.state is not None:
        failure = replace(failure, difference=difference.state)
    note = str(difference) if difference else "no difference was seen in the results and side effects of the calls"
    changed = {**plan.axes, "parting": difference.what if difference else "none"}
    verdict = replace(failing.verdict, failure=failure, note=note)
    cell = replace(failing, name=plan.name, verdict=verdict, changed=changed)
    script.keep(plan, cell)
    return [cell]


def _calls(script: OnScript, name: str, override: Override, env: dict[str, str]) -> list[WitnessedCall]:
    """The calls of the process with the most calls."""
    script.verdict({**override, "witness": True}, name, env)
    files = sorted((script.case.path / "ablate" / name / "probe").glob(finding(WITNESS_FILE, "*")))
    return max(map(_read_calls, files), key=len, default=[])


def _read_calls(path: Path) -> list[WitnessedCall]:
    try:
        calls: list[WitnessedCall] = loads(path.read_bytes())
    except ValueError as error:
        raise StageError(f"{path} is damaged ({error}); run the command again.") from None
    return calls


def forced_is_compiling(script: OnReducedScript, failing: Cell, asked: frozenset[str]) -> list[Cell]:
    """The failing cell with the answer of the functions `asked` held at False and, if that passes, at True.

    A script that asks whether it is being compiled may do another thing by intent when compiled. With the answer held,
    eager and compiled code take the same branch, and any difference that is left is the compiler's. A script that fails
    at True is also run in eager: what fails there alike is the branch itself. There are no cells if the script does not
    ask, or if the compiler raises.
    """
    held: list[Cell] = []
    failure = failing.verdict.failure
    for contrast, answer in HELD.items() if failure is not None and failure.kind.policy.compared else ():
        text = held_at(script.text, asked, answer=answer)
        if text is None:
            return []
        plan = _plan(failing, f"{failing.recipe.backend} with is_compiling() held at {answer}", contrast)
        cells = script.of_text(text).run([plan])
        if answer and cells[0].same:
            axes, name = {"contrast": EAGER_AT_TRUE}, "no torch.compile, with is_compiling() held at True"
            cells += script.of_text(text).run([CellPlan(name, failing.recipe, compiled=False, axes=axes)])
        by_hand = f"  # with {answer} in place of each torch.compiler.is_compiling()"
        held += [replace(cell, repeat=cell.repeat + by_hand) for cell in cells]
        if not answer and cells[0].outcome is not RunOutcome.PASSES:
            break
    return held


def held_at(text: str, asked: frozenset[str], *, answer: bool) -> str | None:
    """`text` with `answer` for every call of torch's functions `asked`; None if there is no such call."""
    tree = ast.parse(text)
    holder = _Holder(_of_torch(tree), asked, answer)
    tree = holder.visit(tree)
    return ast.unparse(tree) + "\n" if holder.count else None


def _of_torch(tree: ast.Module) -> dict[str, str]:
    """The names that an import binds to torch or to a part of it, each with the full name of that part."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                bound |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in aliases}
            case ast.ImportFrom(module=str(module), names=aliases):
                bound |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}
    return {name: whole for name, whole in bound.items() if whole.partition(".")[0] == "torch"}


class _Holder(ast.NodeTransformer):
    """Replaces each call by the answer, and counts the calls."""

    def __init__(self, of_torch: dict[str, str], asked: frozenset[str], answer: bool) -> None:
        self.of_torch, self.asked, self.answer = of_torch, asked, answer
        self.count = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The answer, if this is a call of one of the functions."""
        root, _, _ = ast.unparse(node.func).partition(".")
        called = node.func.attr if isinstance(node.func, ast.Attribute) else self._function(root)
        if root not in self.of_torch or called not in self.asked:
            return self.generic_visit(node)
        self.count += 1
        return ast.Constant(self.answer)

    def _function(self, name: str) -> str:
        return self.of_torch.get(name, "").rpartition(".")[2]


def taken_out(subject: Cells, failing: Cell) -> list[Cell]:
    """The failing cell without what the program changes in torch and, if it stays, without the program's operators.

    There are none if the text of the subject has no such thing. A check that asks what the program's own
    `__torch_dispatch__` or operators keep, or what its tensor subclasses lose, may fail in eager, too, without that.
    """
    failure, operators = failing.verdict.failure, subject.uses_custom_operators()
    may_forget = operators and failure is not None and failure.kind is Kind.ACCURACY
    changes = _without_changes(subject, failing) if subject.changes_torch() or may_forget else []
    if changes and changes[0].outcome is RunOutcome.PASSES:
        return changes
    texts = "\n".join(subject.texts())
    asked = [*changes, *(_without_operators(subject, failing) if operators else [])]
    in_eager = [(FORGETFUL_EAGER, "handlers")] if may_forget or "__torch_dispatch__" in texts else []
    in_eager += [(REBUILT_EAGER, "subclasses")] if "__tensor_flatten__" in texts else []
    for contrast, kind in in_eager:
        without, setup = f"eager without {TAKEN_OUT[kind]}", keeping((kind,))
        plan = CellPlan(without, failing.recipe, compiled=False, axes={"contrast": contrast}, setup=setup)
        asked += subject.run([plan])
    return asked


def _without_changes(subject: Cells, failing: Cell) -> list[Cell]:
    """The failing cell without all changes and, if that passes, without those of one kind at a time.

    Torch's own is put back in the place of the changes. Inductor may compile wrongly what right changes lead to: there,
    the program keeps them, and eager's kernels run the graph.
    """
    backend, failure = failing.recipe.backend, failing.verdict.failure
    promises = withdrawn(failure) if failure is not None else {}
    no_part = [] if promises else [PROMISES]
    no_part += [] if failure is not None and may_be_interrupted(failure) else [INTERRUPTIONS]
    kinds = [kind for kind in TAKEN_OUT if kind not in no_part]
    every = f"{backend} without what the program changes in torch"
    (whole,) = subject.run([_plan(failing, every, WITHOUT_CHANGES, keeping(kinds, promises))])
    if whole.outcome is not RunOutcome.PASSES:
        return [whole]
    by_kind = [
        _plan(failing, f"{backend} without {TAKEN_OUT[kind]}", f"{WITHOUT_CHANGES}: {kind}", keeping((kind,), promises))
        for kind in kinds
    ]
    if backend == LADDER[-1]:
        by_kind.append(_plan(failing, f"{backend} with eager's kernels", EAGER_KERNELS, _EAGER_KERNELS))
    return [whole, *subject.run(by_kind)]


def _without_operators(subject: Cells, failing: Cell) -> list[Cell]:
    """A run in eager that checks the program's operators and, if one is not as it says, the failing cell without them.

    What is exported cannot do without: its graph has no breaks.
    """
    backend, axes = failing.recipe.backend, {"contrast": OPERATORS_CHECKED}
    check = setup_of("own_operators", "check()")
    cells = subject.run(
        [CellPlan("eager with custom operators checked", failing.recipe, compiled=False, axes=axes, setup=check)]
    )
    if not mismatch_of({OPERATORS_CHECKED: cells[0]}) or backend in ENTRIES:
        return cells
    without = CellPlan(
        f"{backend} without custom operators",
        failing.recipe.with_(fullgraph=False),
        overridden=(*failing.changed, "fullgraph"),
        axes={**failing.changed, "fullgraph": False, "contrast": WITHOUT_OPERATORS},
        setup=setup_of("own_operators", "keep_out()"),
    )
    return [*cells, *subject.run([without])]


def keeping(kinds: Sequence[str], promises: Mapping[str, Mapping[str, object]] | None = None) -> str:
    """Python code that keeps these kinds of things as torch has them. `promises`: the settings to put back."""
    state = tuple(kind for kind in kinds if kind in OF_STATE)
    changes = tuple(kind for kind in kinds if kind not in (*OF_STATE, INTERRUPTIONS, PROMISES))
    kept = setup_of("originals", f"keep(*{changes!r})") if changes or state else ""
    kept += setup_of("own_state", f"forget(*{state!r})") if state else ""
    kept += setup_of("interruptions", "refuse()") if INTERRUPTIONS in kinds else ""
    return kept + (setup_of("promises", f"withdraw({promises!r})") if PROMISES in kinds else "")
