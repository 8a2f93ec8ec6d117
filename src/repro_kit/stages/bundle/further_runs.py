"""What the case holds of other runs: the user's, on devices and builds, with variants and workarounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from repro_kit.bundle.facts import without_private
from repro_kit.case.case import Case
from repro_kit.case.stage_results import RELEASES
from repro_kit.diagnosis.answers import Answers, TriedVariant, TriedWorkaround, UnknownFact
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.diagnosis.evidence import Link, Step
from repro_kit.failure.failure import Layer
from repro_kit.failure.signature import RunOutcome, Signature, Strength
from repro_kit.failure.tracebacks import short
from repro_kit.files import read_text
from repro_kit.graph.placement import devices_in
from repro_kit.probe.repro_probe.protocol.recipe_data import CONFIG_MODULES
from repro_kit.recipe import LADDER
from repro_kit.regressions.build import Mark
from repro_kit.regressions.search import SearchEnding, SearchOutcome, next_step
from repro_kit.regressions.search_state import ANSWER, DIRECTORY, read_state
from repro_kit.stages.bundle.forms import CaseResults, ReproForm
from repro_kit.subject.subject_check import is_program_alone

_MOST_VARIANTS = 3
_VARIABLE = re.compile(r"(TORCH_BISECT_\w+)=(\S+)")
_MARKS = {Mark.GOOD: "passes", Mark.BAD: "fails", Mark.SKIP: "cannot tell"}


def with_replay(answers: Answers, ablation: Ablation | None, *, replays: bool = True) -> Answers:
    """`answers` with the command of the `ablation` of the bundle that replays the failing step.

    `replays`: whether `repro.py` failed with the variables of the last step.
    """
    replay = _replay(ablation, ("op", "backend") if replays else ("backend",))
    if replay:
        return replace(answers, replay=replay)
    why = "torch's environment variables alone repeat no step of the ablation" if ablation else "there is no ablation"
    return replace(answers, unknown=(*answers.unknown, UnknownFact("replay", why)))


def devices(form: ReproForm) -> Iterator[TriedVariant]:
    """The devices on which the program fails, or was not tried."""
    accelerator, moved_to_cpu = form.facts.environment.accelerator, form.facts.moved_to_cpu
    used = devices_in(form.program) if form.program is not None else frozenset()
    if form.program is None and accelerator:
        return  # what a script runs on is its own affair
    yield TriedVariant("CPU", "not tried" if used else "fails")
    for device in sorted(used):
        yield TriedVariant(device.upper(), "fails")
    for device in moved_to_cpu.devices if moved_to_cpu else ():
        yield TriedVariant(device.upper(), "the program was recorded there, and not run again")
    if not used and not moved_to_cpu:
        there = "not tried" if accelerator else "not tried (this machine has no accelerator)"
        yield TriedVariant((accelerator or "cuda").upper(), there)


def builds(case: Case) -> Iterator[TriedVariant]:
    """The builds on which this failure was looked for: by `verify --on`, then by a bisection, each once."""
    seen: dict[str, TriedVariant] = {}
    for tried in (*_of_releases(case), *_of_bisection(case)):
        seen.setdefault(tried.what, tried)
    yield from seen.values()


def _of_releases(case: Case) -> Iterator[TriedVariant]:
    if case.holds(RELEASES) and _is_of(case, case.load(RELEASES).signature):
        yield from case.load(RELEASES).builds


def _of_bisection(case: Case) -> Iterator[TriedVariant]:
    state = read_state(case.path / DIRECTORY)
    if state is None or not _is_of(case, state.signature):
        return
    for build in state.builds:
        judgement = state.current.get(build.name)
        if judgement is not None:
            version = judgement.version or build.version or ("" if build.python else build.shown)
            yield TriedVariant(f"{state.package} {version}".strip(), _MARKS[judgement.mark])


def _is_of(case: Case, signature: Signature | None) -> bool:
    expected = case.file.signature
    return bool(expected and signature and expected.matches(signature, Strength.CROSS_VERSION))


def variants(form: ReproForm) -> Iterator[TriedVariant]:
    """What was tried next to the result: those that pass first, since they tell what the failure needs."""
    reduction = form.facts.reduction
    if reduction is None or not form.smallest:
        return
    tried = list(reduction.variants)
    if not tried and reduction.twin is not None:  # of a version that kept no others
        tried = [TriedVariant(reduction.twin.what, "passes")]
    yield from sorted(tried, key=lambda each: each.outcome != "passes")[:_MOST_VARIANTS]


def workaround(ablation: Ablation | None) -> TriedWorkaround | None:
    """The least intrusive change that was seen to help: on the script, a setting, an argument of torch.compile."""
    if ablation is None or ablation.layer in (Layer.USER, Layer.BACKEND):
        return None
    for tried in ablation.workarounds:
        if tried.works:
            return TriedWorkaround(tried.name, "script", tried.lines)
    for flip in ablation.chain.flips if ablation.chain else ():
        module, _, name = flip.name.partition(".")
        line = f"{CONFIG_MODULES.get(module, module)}.{name} = {flip.value!r}"
        return TriedWorkaround(line, ablation.chain.subject if ablation.chain else ablation.subject, (line,))
    cell = next(filter(_is_argument, ablation.cells), None)
    if cell is None:
        return None
    argument = ", ".join(f"{name}={value!r}" for name, value in cell.changed.items())
    return TriedWorkaround(argument, cell.subject, (f"torch.compile(..., {argument})",))


def _is_argument(cell: Cell) -> bool:
    """Whether the subject passes in `cell`, by another argument of torch.compile that still compiles it."""
    ran = cell.compiled and not (cell.inferred or cell.no_effect or cell.setup)
    return ran and set(cell.changed) <= {"dynamic", "mode"} and bool(cell.changed) and cell.outcome is RunOutcome.PASSES


def subsystems(ablation: Ablation | None) -> tuple[TriedVariant, ...]:
    """Every subsystem of the compiler that was switched off, and how the subject ended without it."""
    chain = ablation.chain if ablation else None
    if chain is None:
        return ()
    tried = next((link.tried for link in chain.links if link.tried), ())
    tried = tried or next((step.tried for step in chain.untried if step.tried), ())
    return tuple(TriedVariant(side.what, side.outcome) for side in tried)


def replayed_variables(ablation: Ablation | None) -> dict[str, str]:
    """The variables of the last step of the chain that torch's own variables make; empty without one."""
    return dict(_VARIABLE.findall(_replay(ablation, ("op",))))


def _replay(ablation: Ablation | None, steps: Sequence[Step]) -> str:
    """The run of `repro.py` that fails last in the chain of evidence, by torch's own variables."""
    links = [link for link in ablation.chain.links if not link.beside] if ablation and ablation.chain else []
    for step in steps:
        command = next(filter(None, (_command(link) for link in reversed(links) if link.step == step)), "")
        if command:
            return command
    return ""


def _command(link: Link) -> str:
    """The command of the failing side, if variables alone make it."""
    command = link.bad.repeat if link.bad else ""
    if " -c " in command or "#" in command or not command.endswith(".py"):
        return ""
    if link.step == "backend" and "TORCH_BISECT_" not in command and link.culprit in LADDER:
        return f"TORCH_BISECT_BACKEND={link.culprit} {command}"
    return command if "TORCH_BISECT_" in command else ""


def users_end(case: Case, results: CaseResults, redact: Callable[[str], str], *, code: bool) -> str:
    """``ended with exit status 1: ValueError: …``; empty for a case that was made of a program, which no command ran.

    `code`: whether the words of the user's own exceptions may be shown.
    """
    observation, observed = results.observation, results.observed
    if is_program_alone(case) or observed is None:
        return ""
    how = f"ended with exit status {observation.exit_status}"
    if observation.timed_out:
        how = f"was still running after {observation.seconds:.0f} s"
    elif observation.signal:
        how = f"was killed by {observation.signal}"
    said = "" if observed.failure.kind.policy.ends_process else _own_words(results, redact, code=code)
    if observed.source in ("trace", "log") and said:
        return f"{how}; it caught {said}"
    return f"{how}: {said}" if said else how


def _own_words(results: CaseResults, redact: Callable[[str], str], *, code: bool) -> str:
    """The command's own exception; of one that the user's code raises only its type, unless `code` may be shown."""
    observed = results.observed
    if observed is None or observed.source == "measured" or not observed.failure.exceptions:
        return ""
    root = observed.failure.exceptions[-1]
    if not observed.failure.kind.policy.compared:
        return without_private(results.facts, redact).failure_line
    line = redact(root.message).strip().partition("\n")[0] if code else ""
    return f"{short(root.type)}: {line}" if line else short(root.type)


def bisected(case: Case) -> str:
    """The result of a bisection of `case`, as Markdown.

    "" if there was no bisection, if it found nothing, or if it was about another failure than the case is now.
    """
    directory = case.path / DIRECTORY
    state = read_state(directory)
    expected = case.file.signature
    if state is None or state.signature is None or expected is None:
        return ""
    if not expected.matches(state.signature, Strength.CROSS_VERSION):
        return ""
    outcome = next_step(state.question, state.marks)
    has_result = isinstance(outcome, SearchOutcome) and outcome.ending in (SearchEnding.FOUND, SearchEnding.RANGE)
    return read_text(directory / ANSWER).strip() if has_result and (directory / ANSWER).is_file() else ""
