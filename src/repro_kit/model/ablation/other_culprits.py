"""Who else than a part of the layer may be at fault: the program, its operators, what an earlier run compiled.

`RULES` are tried in their order. The first that gives a diagnosis decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.contrasts import (
    NO_ARTIFACTS,
    OPERATORS_CHECKED,
    WITHOUT_OPERATORS,
)
from repro_kit.model.ablation.diagnosis import (
    HELD_AT_FALSE,
    HELD_AT_TRUE,
    OVERWRITTEN,
    OWN_BRANCH,
    OWN_CHANGE,
    REQUESTED_BREAK,
    TAKEN_OUT,
    WITHOUT_CHANGES,
    Diagnosis,
    passes,
)
from repro_kit.model.ablation.requested_break import asks_for_break
from repro_kit.model.ablation.script_code import SCRIPT_CODE, ScriptCode, script_code
from repro_kit.model.failure.failure import Failure, Layer
from repro_kit.model.failure.frames import torch_path
from repro_kit.model.failure.late_errors import is_overwritten
from repro_kit.model.failure.tracebacks import short

_OPERATOR = "custom-operator"
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


@dataclass(frozen=True)
class Evidence:
    """What a rule looks at. `plain`: the layer that the ladder names, by the `failing` cell."""

    plain: Diagnosis
    failing: Cell
    contrasts: Mapping[str, Cell]

    @property
    def failure(self) -> Failure | None:
        """The failure of the failing cell."""
        return self.failing.verdict.failure

    @property
    def called(self) -> ScriptCode | None:
        """The function of the script that torch had called, and that was running."""
        return script_code(self.failure) if self.failure is not None else None


Rule = Callable[[Evidence], Diagnosis | None]


def _reads_overwritten_output(evidence: Evidence) -> Diagnosis | None:
    links = evidence.failure.exceptions if evidence.failure else ()
    read = any(is_overwritten(link.message) for link in links)
    return Diagnosis(Layer.USER, OVERWRITTEN, _OVERWRITTEN) if read else None


def _fake_kernel_raises(evidence: Evidence) -> Diagnosis | None:
    failure = evidence.failure
    if failure is None or not _in_users_fake_kernel(failure):
        return None
    reason = f"The user's own fake kernel of {failure.op or 'a custom operator'} raises: the compiler is not to blame."
    return Diagnosis(Layer.USER, _OPERATOR, reason)


def _asks_for_break(evidence: Evidence) -> Diagnosis | None:
    asked = evidence.failure is not None and asks_for_break(evidence.failure)
    return Diagnosis(Layer.USER, REQUESTED_BREAK, _ASKS_FOR_A_BREAK) if asked else None


def _script_code_was_running(evidence: Evidence) -> Diagnosis | None:
    failure, called = evidence.failure, evidence.called
    if failure is None or called is None or not _was_at_it(called, failure, evidence.failing):
        return None
    beyond = f" and had called {called.beyond} of torch" if called.beyond else ""
    who = f"{called.words[0].upper()}{called.words[1:]}"
    reason = f"{who} {failure.kind.policy.doing}{beyond}: {evidence.plain.evidence}."
    return Diagnosis(evidence.plain.layer, SCRIPT_CODE, reason)


def _operator_is_not_as_it_says(evidence: Evidence) -> Diagnosis | None:
    said, without = mismatch_of(evidence.contrasts), evidence.contrasts.get(WITHOUT_OPERATORS)
    if not said or (without is not None and without.same):
        return None
    gone = passes(evidence.contrasts, WITHOUT_OPERATORS)
    more = ", and the failure is gone with the operator in no graph" if gone else ""
    reason = f"The custom operator {said}{more}: the compiler is not to blame."
    return Diagnosis(Layer.USER, _OPERATOR, reason)


def _loads_wrong_artifact(evidence: Evidence) -> Diagnosis | None:
    if not passes(evidence.contrasts, NO_ARTIFACTS):
        return None
    who = "A cache artifact that the script loads (torch.compiler.load_cache_artifacts)"
    why = "and passes if nothing is loaded and all is compiled anew"
    return replace(evidence.plain, cause="graph-cache", who=who, evidence=f"{evidence.plain.evidence}, {why}")


def _does_otherwise_when_compiled(evidence: Evidence) -> Diagnosis | None:
    held = passes(evidence.contrasts, HELD_AT_FALSE) and passes(evidence.contrasts, HELD_AT_TRUE)
    return Diagnosis(Layer.USER, OWN_BRANCH, _BY_INTENT) if held else None


def _passes_without_its_changes(evidence: Evidence) -> Diagnosis | None:
    if not passes(evidence.contrasts, WITHOUT_CHANGES):
        return None
    alone = [words for kind, words in TAKEN_OUT.items() if passes(evidence.contrasts, f"{WITHOUT_CHANGES}: {kind}")]
    what = " or ".join(f"without {words}" for words in alone) or "without what the program changes in torch"
    reason = f"The failure is gone {what}: the compiler is not to blame. With them, {evidence.plain.evidence}."
    return Diagnosis(Layer.USER, OWN_CHANGE, reason)


RULES: tuple[Rule, ...] = (
    _reads_overwritten_output,
    _fake_kernel_raises,
    _asks_for_break,
    _script_code_was_running,
    _operator_is_not_as_it_says,
    _loads_wrong_artifact,
    _does_otherwise_when_compiled,
    _passes_without_its_changes,
)


def mismatch_of(contrasts: Mapping[str, Cell]) -> str:
    """What an operator of the program's does otherwise than it says, in words; "" where none is known."""
    cell = contrasts.get(OPERATORS_CHECKED)
    failure = cell.verdict.failure if cell else None
    links = failure.exceptions if failure else ()
    return next((link.message for link in links if short(link.type) == "OperatorMismatch"), "")


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
    return not called.beyond or (failure.kind.policy.hangs and cell.subject == "program")
