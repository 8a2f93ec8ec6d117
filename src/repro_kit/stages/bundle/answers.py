"""Gather the answers to what maintainers ask: from the case, and from one question to an interpreter with torch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from repro_kit.bundle.repro.check_program import silent
from repro_kit.case.case import Case
from repro_kit.diagnosis.answers import (
    Answers,
    DoubleErrors,
    Fact,
    FirstWrong,
    GeneratedKernel,
    TorchSource,
    TriedWorkaround,
    UnknownFact,
    around,
)
from repro_kit.diagnosis.cell import Ablation
from repro_kit.diagnosis.layer import WITNESS
from repro_kit.failure.failure import STATE, Difference, Failure, Layer, Phase
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import focused
from repro_kit.graph import render
from repro_kit.options.stages import QueryOptions
from repro_kit.probe.repro_probe.protocol.queries import KernelData, ReportAsked, ReportData
from repro_kit.recipe import Recipe
from repro_kit.repro_run.running import Check
from repro_kit.serialize import from_data
from repro_kit.session.oracles import fresh_timeout, shared_or_fresh
from repro_kit.stages.bundle.claims import CASTS
from repro_kit.stages.bundle.code_places import asked_places, of_error, of_own_code, of_source, operator_of
from repro_kit.stages.bundle.forms import CaseResults, ReproForm
from repro_kit.stages.bundle.further_runs import builds, devices, replayed_variables, subsystems, variants, workaround
from repro_kit.ui import Ui

_KERNEL_LINES = 60
_BOUNDS = (1.0, 10.0, 60.0, 600.0, 3600.0)  # seconds; a measured time would differ each time the bundle is made
#: How much of the program a question runs; of other kinds a run adds nothing, or ends the process.
_RUNS: dict[Kind, Literal["eager", "compiled", "native", "native_backward"]] = {
    Kind.ACCURACY: "compiled",
    Kind.COMPILE_ERROR: "compiled",
    Kind.RUNTIME_ERROR: "compiled",
    Kind.TIMEOUT: "eager",
    Kind.DEADLOCK: "eager",
    Kind.CRASH: "native_backward",
}
_CASTS_ON = "torch._inductor.config.emulate_precision_casts = True"
#: The error of these is raised in torch, or in what it calls.
_RAISED = (Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR)
_OF_VALUES = ("value", "nan")  # kinds of difference
#: gcc and clang: ``file.cpp:12:3: error: …``, and below it the line with its number.
_QUOTED = re.compile(r": (?:fatal )?error: .*\n\s*\d+ +\|(?P<line>.+)")
#: What gcc and clang call a name that is declared twice.
_AGAIN = re.compile(r"error: (?:conflicting declaration|redeclaration|redefinition)")
#: A number with a point, or one that multiplies or divides a value: others are sizes and indices.
_NUMBER = re.compile(r"(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?(?![\w.])|(?:(?<= \* )|(?<=[^/]/ ))\d+(?![\w.])")


@dataclass(frozen=True)
class TorchReply:
    """The reply of the interpreter with torch; `why`: why it did not run the program, or gave no answer."""

    data: ReportData = field(default_factory=ReportData)
    why: str = ""
    replays: bool = True  # False: `repro.py` did not fail with the variables of the ablation's last step


def question(form: ReproForm) -> tuple[ReportAsked, str]:
    """What to ask about `form`; and why the program is not run, if it is not."""
    facts, run, why = form.facts, _RUNS.get(form.facts.signature.kind), ""
    if form.program is None:
        run, why = None, "there is no graph, only a script"
    elif form.recipe.group is not None:
        run, why = None, "the program runs on several ranks"
    elif facts.in_eager or form.recipe.validation:
        run, why = None, "the program fails in eager"
    elif facts.signature.kind in _RAISED and not (facts.layer is Layer.INDUCTOR and form.reduced):
        run = None  # for an error, only the kernels of a reduced program add something
    elif facts.signature.kind is Kind.CRASH:
        run = _until_crash(form, form.program.recipe)
    return {"run": run or "nothing", "places": asked_places(form)}, why


def _until_crash(form: ReproForm, recipe: Recipe) -> Literal["native", "native_backward"] | None:
    """How far a program that dies in a kernel can be run for its kernels; None: there are none to show."""
    if form.facts.layer is not Layer.INDUCTOR or not form.reduced:
        return None
    phase = form.facts.failure.phase if form.facts.failure else None
    in_forward = recipe.backward == "none" or phase in (Phase.COMPILE, Phase.RUN)
    return "native" if in_forward else "native_backward"


def ask(case: Case, form: ReproForm, fails: Callable[[Mapping[str, str]], bool] | None, ui: Ui) -> TorchReply:
    """Ask the interpreter of the case, once; no process is started if there is nothing to ask.

    `fails`: whether `repro.py` fails as expected with these variables; None: it is not verified.
    """
    asked, why = question(form)
    of_script = _casts_of_script(form, fails, ui)
    variables = replayed_variables(form.facts.ablation) if form.program is not None and fails is not None else {}
    replays = fails is None or not variables or fails(variables)
    if asked["run"] == "nothing" and not asked["places"]:
        return TorchReply(of_script, why, replays)
    ui.progress("asking torch for values, kernels and places in its source")
    text = render(form.program) if form.program is not None else ""
    inputs = form.path.parent / "inputs" if form.path is not None else None
    with shared_or_fresh(case) as oracle:
        reply = oracle.report(text, inputs, asked, timeout=fresh_timeout(case, QueryOptions()))
    if "told" in reply:
        return TorchReply({**reply["told"], **of_script}, why, replays)
    ended = "took too long" if reply.get("timed_out") else f"ended with {reply.get('signal') or reply.get('status')}"
    return TorchReply(why=f"a further run of the program {ended}", replays=replays)


def _casts_of_script(form: ReproForm, fails: Callable[[Mapping[str, str]], bool] | None, ui: Ui) -> ReportData:
    """Whether a script gives wrong values with precision casts, too; what is asked of a program tells it there."""
    signature = form.facts.signature
    if form.program is not None or signature.kind is not Kind.ACCURACY or fails is None:
        return {}
    if signature.difference not in (None, *_OF_VALUES) or signature.rounding:
        return {}
    if form.facts.layer is not Layer.INDUCTOR:
        of_inductor = "the setting is one of Inductor's, which is not at fault"
        return {"missing": {"with_casts": of_inductor}} if form.facts.layer else {}
    ui.progress(f"running repro.py with {CASTS}=1")
    return {"with_casts": fails({CASTS: "1"})}


def answers_of(
    case: Case,
    results: CaseResults,
    form: ReproForm,
    check: Check | None,
    told: TorchReply,
    *,
    values: bool,
    code: bool,
) -> Answers:
    """The answers about `form`. `values`: stored tensor values may be shown; `code`: the user's own objects, too."""
    hidden = form.program is not None and bool(form.program.stored) and not values
    first = None if hidden else _first_wrong(results, form, told, code=code)
    kernel, why_no_kernel = _kernel(form, told, first)
    answers = Answers(
        first_wrong=first,
        double=() if hidden else _double(told),
        with_casts=_casts(told),
        places=_places(form, told, check),
        kernel=kernel,
        runs=_runs(form, check),
        eager_seconds=_eager_seconds(form, check, told),
        devices=tuple(devices(form)),
        builds=tuple(builds(case)),
        variants=tuple(variants(form)),
        workaround=workaround(form.facts.ablation) or _by_casts(form, told),
        subsystems=subsystems(form.facts.ablation),
    )
    reasons: dict[Fact, str] = {
        **dict(_of_wrong_result(form, told, hidden=hidden)),
        "places": _why_no_place(form, told),
        "kernel": why_no_kernel,
        "eager_seconds": told.why if form.facts.signature.kind.policy.hangs else "",
        "builds": "no other build was tried",
        "variants": "the reduction judged no valid variants" if form.smallest else "the program is not reduced",
        "workaround": "no change that was tried makes it pass",
    }
    return replace(answers, unknown=tuple(_unknown(answers, reasons)))


def _unknown(answers: Answers, reasons: Mapping[Fact, str]) -> Iterator[UnknownFact]:
    for fact, why in reasons.items():
        if why and getattr(answers, fact) in (None, (), ""):
            yield UnknownFact(fact, why)


def _of_wrong_result(form: ReproForm, told: TorchReply, *, hidden: bool) -> Iterator[tuple[Fact, str]]:
    """Why the facts of a wrong result are not known."""
    signature, missing = form.facts.signature, told.data.get("missing", {})
    if signature.kind is not Kind.ACCURACY:
        return
    unseen = missing.get("differences") or told.why or "a further run agreed with eager"
    stored = "it comes from stored tensor values, which are not in the bundle" if hidden else ""
    of_script = "only the script's own check fails, and it does not show which value is eager's"
    yield "first_wrong", stored or (of_script if form.program is None else unseen)
    if signature.difference in (None, *_OF_VALUES):
        yield "double", stored or missing.get("double") or unseen
        yield "with_casts", missing.get("with_casts") or unseen


def _first_wrong(results: CaseResults, form: ReproForm, told: TorchReply, *, code: bool) -> FirstWrong | None:
    if form.facts.signature.kind is not Kind.ACCURACY:
        return None
    seen = from_data(told.data.get("differences", []), tuple[Difference, ...])
    if seen:
        chosen = focused(Failure(Kind.ACCURACY, difference=seen[0], also=seen[1:]), form.facts.signature).difference
        return _as_first(chosen or seen[0], told.data.get("double", {}).get((chosen or seen[0]).where, ""))
    of_form = form.facts.failure.difference if form.facts.failure else None
    of_script = form.facts.reduction if form.program is None and form.reduced else None
    of_calls = of_script.difference if of_script else None
    candidates = [of_form, of_calls, _of_witness(form.facts.ablation)]
    if results.observed is not None:
        candidates.append(results.observed.failure.difference)
    known = [difference for difference in candidates if difference and (difference.eager or difference.compiled)]
    # What another subject than `repro.py` shows may have sizes and values of the user's own.
    own = (of_form, of_calls)
    mine = [each for each in known if code or any(each is mine for mine in own) or each.kind == STATE]
    return _as_first(mine[0]) if mine else None


def _of_witness(ablation: Ablation | None) -> Difference | None:
    """The state that differs, if the ablation has compared the calls of two runs."""
    cells = ablation.cells if ablation else ()
    failures = (cell.verdict.failure for cell in cells if cell.changed.get("contrast") == WITNESS)
    found = (failure.difference for failure in failures if failure is not None)
    return next((difference for difference in found if difference and difference.kind == STATE), None)


def _as_first(difference: Difference, double: str = "") -> FirstWrong:
    index = str(list(difference.index)) if difference.index else ""
    return FirstWrong(difference.kind, difference.where, difference.eager, difference.compiled, index, double)


def _double(told: TorchReply) -> tuple[DoubleErrors, ...]:
    return from_data(told.data.get("errors", []), tuple[DoubleErrors, ...])


def _casts(told: TorchReply) -> Literal["fails", "passes", ""]:
    differs = told.data.get("with_casts")
    return "" if differs is None else "fails" if differs else "passes"


def _by_casts(form: ReproForm, told: TorchReply) -> TriedWorkaround | None:
    subject: Literal["script", "program"] = "script" if form.program is None else "program"
    return TriedWorkaround(_CASTS_ON, subject, (_CASTS_ON,)) if _casts(told) == "passes" else None


def _places(form: ReproForm, told: TorchReply, check: Check | None) -> tuple[TorchSource, ...]:
    """Where the error was raised, then what layer and operator name; of others' code, the line that raises."""
    if form.facts.in_eager or form.facts.layer in (Layer.USER, Layer.BACKEND):
        return tuple(of_own_code(check.failing.verdict.failure)) if check and check.runs else ()
    commit, failure = form.facts.environment.torch_git, form.facts.failure
    found = [of_source(place, commit) for place in told.data.get("places", [])]
    if failure is not None and form.facts.signature.kind.policy.raised_compiled:
        found = [*of_error(failure, commit), *found]
    return tuple({(place.file, place.line): place for place in found}.values())


def _why_no_place(form: ReproForm, told: TorchReply) -> str:
    if form.facts.in_eager or form.facts.layer in (Layer.USER, Layer.BACKEND):
        return "torch's compiler is not to blame"
    if form.facts.layer is None:
        return "no layer is named"
    if asked_places(form):
        none = told.data.get("missing", {}).get("places") or "torch has no Python source for what is named"
        return none if "places" in told.data else told.why
    chain = form.facts.ablation.chain if form.facts.ablation else None
    untried = [step.why for step in chain.untried if step.step in ("subsystem", "op")] if chain else []
    return untried[0] if untried else f"no operator, pass or handler of {form.facts.layer} is named"


def _kernel(form: ReproForm, told: TorchReply, first: FirstWrong | None) -> tuple[GeneratedKernel | None, str]:
    """The one kernel of the reduced program, or that of the operator at fault; else why there is none."""
    if form.facts.layer is not Layer.INDUCTOR:
        return None, "" if form.facts.layer is None else "Inductor is not at fault"
    if form.program is None or not form.reduced:
        return None, "the program is not reduced"
    kernels = told.data.get("kernels", [])
    if not kernels:
        unseen = "" if "kernels" in told.data else "the program was not run again for it"
        if form.facts.signature.kind is Kind.COMPILE_ERROR:
            unseen = "the compiler fails before there is one"
        return None, told.why or unseen or "Inductor generates no kernel for it"
    found = operator_of(form.facts.ablation.chain if form.facts.ablation else None)
    bare = found[1].split(".")[1].strip("_") if found and found[1].count(".") else ""
    named = [kernel for kernel in kernels if bare and re.search(rf"_{re.escape(bare)}(?:_|$)", kernel["name"])]
    refused = [kernel for kernel in kernels if _refused(kernel["code"].splitlines(), form.facts.failure)]
    chosen = refused or named or kernels
    if len(chosen) > 1:
        return None, f"Inductor generates {len(chosen)} kernels for it, and it is not known which is wrong"
    return _shown_kernel(chosen[0], first, form.facts.failure), ""


def _shown_kernel(kernel: KernelData, first: FirstWrong | None, failure: Failure | None) -> GeneratedKernel:
    lines = kernel["code"].splitlines()
    marked, why = _refused(lines, failure) or _marked(lines, first)
    shown = around(len(lines), marked - 1, _KERNEL_LINES)
    code = "\n".join(lines[at] for at in shown)
    at = shown.index(marked - 1) + 1 if marked else 0
    return GeneratedKernel(kernel["name"], kernel["language"], code, len(lines) - len(shown), at, why)


def _refused(lines: Sequence[str], failure: Failure | None) -> tuple[int, str] | None:
    """The line that the native compiler quotes at its first error; None if it quotes no line, or it may be several.

    A declaration that is there twice is refused where it stands for the second time.
    """
    message = failure.exceptions[-1].message if failure and failure.exceptions else ""
    quoted = _QUOTED.search(message)
    at = [at for at, line in enumerate(lines, 1) if quoted and line.strip() == quoted["line"].strip()]
    is_known = len(at) == 1 or (len(at) == 2 and quoted is not None and _AGAIN.search(quoted[0]))
    return (at[-1], "the compiler's first error is in it") if is_known else None


def _marked(lines: Sequence[str], first: FirstWrong | None) -> tuple[int, str]:
    """The only line with the number by which the compiled value differs from eager's; 0 if that is not one line."""
    ratio = _ratio(first) if first is not None else None
    if ratio is None:
        return 0, ""
    having = [
        (at, number)
        for at, line in enumerate(lines, 1)
        for number in dict.fromkeys(_NUMBER.findall(line))
        if any(math.isclose(float(number), abs(wanted), rel_tol=1e-6) for wanted in (ratio, 1 / ratio))
    ]
    if len(having) != 1:
        return 0, ""
    ((at, number),) = having
    return at, f"the compiled value is {ratio:g} times eager's, and no other line has the number {number}"


def _ratio(first: FirstWrong) -> float | None:
    """How many times eager's value the compiled one is; None if that is no telling number."""
    try:
        ratio = float(first.compiled) / float(first.eager)
    except (ValueError, ZeroDivisionError):
        return None
    return ratio if math.isfinite(ratio) and ratio not in (0.0, 1.0, -1.0) else None


def _runs(form: ReproForm, check: Check | None) -> str:
    """``3 of 3 runs fail, exit status 1``: of `repro.py`, with those of the same program in earlier stages."""
    if check is None or not check.runs:
        return ""
    tally, hangs = check.tally + check.earlier, form.facts.signature.kind.policy.hangs
    how = f", {_ending(form, check)}" if check.same and not hangs else ""
    if tally.runs == 1 and not tally.failed:
        return "the only run does not fail"
    runs = "the only run" if tally.runs == 1 else f"{tally.failed} of {tally.runs} runs"
    one, several = ("does not end", "do not end") if hangs else ("fails", "fail")
    return f"{runs} {one if tally.runs == 1 else several}{how}"


def _ending(form: ReproForm, check: Check) -> str:
    """How a run of `repro.py` that fails as expected ends: what `check.py` says of it has a status of its own."""
    if form.facts.signature.kind is Kind.CRASH:
        failures = [run.verdict.failure for run in check.runs if run.same]
        signals = {failure.signal for failure in failures if failure and failure.signal}
        return f"killed by {' or '.join(sorted(signals)) or 'a signal'}"
    return f"exit status {silent(form.facts) or 1}"


def _eager_seconds(form: ReproForm, check: Check | None, told: TorchReply) -> float | None:
    """The bound below which a program that hangs ends in eager; of a script, the whole of it without torch.compile."""
    if not form.facts.signature.kind.policy.hangs:
        return None
    seconds = told.data.get("eager_seconds")
    if seconds is None and form.program is None and check is not None and check.passes_in_eager:
        seconds = check.eager.verdict.seconds
    return None if seconds is None else next((bound for bound in _BOUNDS if seconds < bound), None)
