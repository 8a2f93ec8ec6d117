"""Which claims hold for this `repro.py`: those of earlier stages, and that a wrong result is not chance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from repro_kit.case.stage_results import Reduction
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.diagnosis.layer import first_failing, is_own, rank
from repro_kit.failure.failure import Difference, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.failure.tracebacks import difference_in
from repro_kit.probe.repro_probe.protocol.failure_data import RANDOM_NUMBERS
from repro_kit.probe.repro_probe.protocol.recipe_data import ENTRIES
from repro_kit.recipe import LADDER
from repro_kit.reduce.flaky import Tally
from repro_kit.repro_run.running import Check
from repro_kit.stages.bundle.forms import CaseResults, ReproForm

#: The rate of a flaky failure is a rough estimate: cells that ran half as often as it asks for are accepted.
_TOLERANCE = 2

#: Whether `repro.py` fails as expected with this backend in place of its own.
FailsWithBackend = Callable[[str], bool]


@dataclass(frozen=True)
class CheckedClaims:
    """`form` with the claims that hold for it, and sentences about dropped claims with the reasons.

    `lacking`: the runs that the cells of the ablation must pass, if too few runs are the reason.
    """

    form: ReproForm
    dropped: tuple[str, ...] = ()
    lacking: int = 0


def earlier(form: ReproForm, results: CaseResults) -> Tally:
    """The runs of the same program, or of the unchanged script, that earlier stages made.

    The run that made the case does not count: without its failure there would be no case.
    """
    if form.program is None and not form.is_users_script:
        of_script = form.facts.reduction
        return Tally(of_script.failed, of_script.runs) if of_script else Tally()
    reduction, ablation = results.reduction, results.facts.ablation
    reduced = Tally(reduction.failed, reduction.runs) if reduction else Tally()
    ablated = _as_it_is(ablation, "script" if form.program is None else "program") if ablation else Tally()
    return ablated + (reduced if form.reduced or reduced.flaky else Tally())


def _as_it_is(ablation: Ablation, subject: str) -> Tally:
    """The runs in the ablation of the subject with its own recipe."""
    if ablation.subject == subject and ablation.runs:
        return Tally(ablation.failed, ablation.runs)
    own_cells = [
        cell
        for cell in ablation.cells
        if cell.subject == subject and cell.recipe == ablation.recipe and not cell.inferred
    ]
    judged = [cell for cell in own_cells if cell.compiled and cell.verdict.status in (Status.PASS, Status.FAIL)]
    return sum((Tally(int(cell.same), cell.runs) for cell in judged), Tally())


def check_claims(
    form: ReproForm, results: CaseResults, check: Check, fails_with: FailsWithBackend, *, against: str = ""
) -> CheckedClaims:
    """`form` without the ablation, if the ablation cannot be shown to hold for `repro.py`.

    `against`: a reason that is known already, if there is one.
    """
    ablation = form.facts.ablation
    if ablation is None:
        return CheckedClaims(form)
    reason, lacking = against or next(_against(form, results, check, ablation), ""), 0
    if not reason and _ran_too_seldom(check, ablation):
        lacking = check.repeats
        reason = f"the failure is flaky, and what passes ran less than {lacking} times (use --repeat {lacking})"
    if not reason and check.verified:
        reason = _contradicted(form, ablation, fails_with)
    if not reason:
        return CheckedClaims(form)
    facts = replace(form.facts, ablation=None)
    sentence = f"the ablation and the layer that the ablation names, since {reason}"
    return CheckedClaims(replace(form, facts=facts), (sentence,), lacking)


def _against(form: ReproForm, results: CaseResults, check: Check, ablation: Ablation) -> Iterator[str]:
    """Why the ablation does not apply to `repro.py`; nothing if it does."""
    captured = results.capture.signature if results.capture else None
    own = (form.facts.signature, results.facts.signature, captured)
    own_failures = {signature.summary() for signature in own if signature}
    if ablation.failure and ablation.failure not in own_failures:
        yield f"the ablation is about another failure ({ablation.failure})"
    torch = form.facts.environment.torch
    if ablation.torch and torch and ablation.torch != torch:
        yield f"the ablation was made with torch {ablation.torch}"
    if form.program is None and ablation.subject == "program":
        yield from _unlike_on_script(ablation)
    if form.program is not None and not _is_other_program(form, ablation) and _own_passed(ablation):
        yield "the ablation passed with the settings of repro.py itself"
    backend, failing = form.recipe.backend, first_failing(ablation.cells, ablation.recipe)
    if form.program is not None and failing is not None and rank(backend) < rank(failing.recipe.backend):
        yield f"repro.py fails with backend {backend!r}, which does less than {failing.recipe.backend!r}"


def _ran_too_seldom(check: Check, ablation: Ablation) -> bool:
    """Whether the failure is flaky, and a passing cell has run too seldom to be evidence."""
    passing = [cell.runs for cell in ablation.cells if _passed(cell)]
    return check.flaky and bool(passing) and _TOLERANCE * min(passing) < check.repeats


def _own_passed(ablation: Ablation) -> bool:
    """Whether all cells with the subject's own settings passed."""
    own_cells = [
        cell
        for cell in ablation.cells
        if cell.compiled and cell.recipe == ablation.recipe and cell.subject == ablation.subject and not cell.setup
    ]
    return bool(own_cells) and all(cell.verdict.status is Status.PASS for cell in own_cells)


def _passed(cell: Cell) -> bool:
    return cell.compiled and not cell.inferred and not cell.no_effect and cell.outcome is RunOutcome.PASSES


def _unlike_on_script(ablation: Ablation) -> Iterator[str]:
    """Why an ablation of a graph does not apply to the script that the graph comes from."""
    own_cells = [cell for cell in ablation.cells if is_own(cell, ablation.recipe)]
    on_graph = {cell.recipe.backend: cell.same for cell in own_cells if cell.subject == "program"}
    on_script = {cell.recipe.backend: cell.same for cell in own_cells if cell.subject == "script"}
    if not any(on_script.values()):
        yield "the ablation ran on a graph of the script, not on the script itself (repro-kit ablate --on both CASE)"
    elif any(on_graph.get(backend) != same for backend, same in on_script.items()):
        yield "the script and its graph disagree in the ablation"


def _contradicted(form: ReproForm, ablation: Ablation, fails_with: FailsWithBackend) -> str:
    """Why runs of `repro.py` contradict the layer, if the ablation ran on another program; "" if they do not."""
    failing = first_failing(ablation.cells, ablation.recipe)
    if not _is_other_program(form, ablation) or failing is None or failing.recipe.backend not in LADDER:
        return ""
    if form.recipe.backend in ENTRIES:
        return ""  # TORCH_BISECT_BACKEND changes nothing if repro.py exports
    program, backend = f"the {ablation.program or 'captured'} graph", failing.recipe.backend
    if ablation.program and backend != form.recipe.backend and not fails_with(backend):
        return f"repro.py passes with backend {backend!r}, with which {program} failed"
    before = LADDER[rank(backend) - 1] if rank(backend) else ""
    passed = any(
        cell.recipe.backend == before and is_own(cell, ablation.recipe) and cell.outcome is RunOutcome.PASSES
        for cell in ablation.cells
    )
    if passed and fails_with(before):
        return f"repro.py fails alike with backend {before!r}, with which {program} passed"
    return ""


def _is_other_program(form: ReproForm, ablation: Ablation) -> bool:
    """Whether `repro.py` has a program or a script other than the one that the ablation ran on."""
    if form.program is None:
        return not form.is_users_script
    judged = form.smallest if ablation.program == "reduced" else not form.reduced
    return not judged


#: Makes Inductor round between two operators as eager does (torch/_inductor/config.py).
CASTS = "TORCHINDUCTOR_EMULATE_PRECISION_CASTS"
_NARROW = re.compile(r"\b(?:b?float16|half|autocast|float8\w*)\b")


def casts_may_explain(signature: Signature, texts: Iterable[str]) -> bool:
    """Whether a fused kernel that leaves out roundings to a narrow dtype may be all that a wrong result shows."""
    of_values = signature.kind is Kind.ACCURACY and signature.difference in (None, "value", "nan")
    return of_values and not signature.rounding and any(map(_NARROW.search, texts))


#: Runs of a script without torch.compile, in which chance may decide; of a program earlier stages know whether it does.
SCRIPT_RUNS = 2


def proof_of(form: ReproForm) -> str:
    """Why the wrong result of `repro.py` is not chance, in one sentence; "" if nobody asked.

    The judge of graphs asks (probe/repro_probe/judge/recheck.py), and of a script the check of `repro.py`. Double
    precision and casts are in `Answers`.
    """
    failure = form.facts.failure
    if form.facts.signature.kind is not Kind.ACCURACY or form.facts.signature.rounding:
        return ""
    if form.program is None:
        return "" if form.facts.in_eager else f"`repro.py` passes without torch.compile in each of {SCRIPT_RUNS} runs."
    own = form.smallest or not form.reduced  # of an earlier step no failure is kept
    if not own or failure is None or failure.difference is None:
        return ""
    if failure.doubts is None or RANDOM_NUMBERS in failure.doubts:
        return "Eager gives the same in two runs, and was compared to compiled code with the same random numbers."
    return "Eager gives the same in two runs, and draws no random numbers."


def shown_reduction(form: ReproForm, check: Check | None) -> Reduction | None:
    """The reduction that led to `form`; only its last result is 1-minimal.

    The other failures that it met are left out: their messages are about larger programs, with the user's names.
    """
    reduction = form.facts.reduction if form.reduced else None
    if reduction is None:
        return None
    difference = reduction.difference and shown_difference(reduction.difference, check)
    return replace(reduction, difference=difference, minimal=reduction.minimal and form.smallest, others=())


def shown_difference(difference: Difference, check: Check | None) -> Difference:
    """`difference`, in the numbers of the run whose output is shown, where a message of the script told it.

    A script that draws random numbers gives others in each run.
    """
    failure = check.failing.verdict.failure if check is not None and check.same else None
    if difference.where or failure is None or not failure.exceptions:
        return difference
    shown = difference_in(failure.exceptions[-1].message)
    return shown if shown is not None and shown.kind == difference.kind else difference
