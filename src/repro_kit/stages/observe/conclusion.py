"""How the stage ends: the failure that the case is about, or why nothing failed and what to do next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.errors import Exit, Stop
from repro_kit.failure.failure import Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import in_words, raised_words
from repro_kit.failure.symptom import Symptom
from repro_kit.options.stages import ObserveOptions
from repro_kit.probe.repro_probe.protocol.recipe_data import CALLS
from repro_kit.runner.read_findings import Findings, read_recorded
from repro_kit.runner.supervised import Run, exit_name
from repro_kit.trace import TraceSummary
from repro_kit.ui import Ui
from repro_kit.verdicts import blame, not_the_compiler, observed_failures
from repro_kit.verdicts.blame import Blame
from repro_kit.verdicts.not_the_compiler import lacks_device

_NAMED = 3  # other failures
#: Variables that switch torch.compile off (torch/_dynamo/config.py).
_OFF = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


def sentences(ended: str, graphs: int, measured: str, words: Sequence[str], why_nothing: str) -> str:
    """The last words; the first line stands by itself.

    `ended`: how the run ended. `graphs`: how many were compiled. `measured`: the symptom that the user asked for, in
    words; empty if none was asked for. `words`: what was given to collect. `why_nothing`: why nothing was compiled.
    """
    result = [f"{measured}."] if measured else []
    if not graphs:
        return "\n".join([f"Nothing failed: {ended}. Nothing was compiled: {why_nothing}.", *result])
    made = "1 graph was" if graphs == 1 else f"{graphs} graphs were"
    compare = f"To compare every compiled call with eager: repro-kit collect --check accuracy {shlex.join(words)}"
    return "\n".join([f"Nothing failed: {ended}, and {made} compiled.", *(result or [compare])])


def why_nothing(env: Mapping[str, str], *, saw_torch: bool) -> str:
    """Why a run has compiled nothing. `saw_torch`: whether a process of it was seen to import torch."""
    off = next((name for name in _OFF if env.get(name) == "1"), None)
    if off is not None:
        return f"{off}=1 switches torch.compile off; unset it, and run the same command again"
    if not saw_torch:
        return "torch was not imported where repro-kit could see it (python -I, -E and -S hide it)"
    return "no compiled function was called (torch.compile(f) compiles when f is first called)"


@dataclass(frozen=True)
class ObservedRun:
    """One observed run; `ended_early`: why repro-kit ended it before its time limit."""

    run: Run
    findings: Findings
    summary: TraceSummary
    failures: tuple[ObservedFailure, ...] = ()
    ended_early: str = ""
    deadlock: bool = False  # the ranks wait for each other, as they may without torch.compile
    users_cache: Path | None = None  # the compiler cache of the user's that the run had a copy of


def conclude(
    case: Case,
    options: ObserveOptions,
    ui: Ui,
    seen: ObservedRun,
    blamed: Blame,
    measured: str,
    symptom: Symptom | None,
) -> None:
    """Print how the stage ended. `measured`: the measurement of the symptom that the user asked for, in words."""
    if not blamed.failures:
        _nothing_failed(case, options, ui, seen, measured, symptom)
        return
    if measured:
        ui.note(measured)
    failures = list(blamed.failures)
    index = observed_failures.index_of(options.failure, failures)
    chosen = failures[index]
    if blamed.needs is not None:
        needs = blamed.needs.failure
        raise Stop(Exit.CANNOT_RUN, f"{lacks_device(needs)}\n{observed_failures.excerpt(needs)}")
    if blamed.deadlock:
        ui.warn("The ranks wait for each other without torch.compile too, so the compiler is not to blame.")
    elif blamed.eager == Status.FAIL:
        raise not_the_compiler.stop_for_eager_failure(blamed.in_eager or chosen)
    if not blamed.settled:  # the failure that a graph must show to settle it
        chosen = blame.as_wrong_result(chosen)
    words = seen_so_far(chosen, blamed)
    case.update(signature=chosen.signature, failure_index=index)
    ui.done(words)
    for entry in entries(case):
        ui.note(f"The model is compiled by {CALLS[entry]}.")
    others = [
        f"--failure {number}: {in_words(failure.signature, failure.failure)}"
        for number, failure in enumerate(failures)
        if number != index
    ]
    if others:
        more = f"; and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        ui.note(f"Also failed, to be chosen with {'; '.join(others[:_NAMED])}{more}.")
    if chosen.failure.kind.policy.ends_process and chosen.failure.step:
        ui.note(f"The program was in this compile step: {chosen.failure.step}")
    if chosen.failure.kind is Kind.TIMEOUT and chosen.source == "exception":
        ui.note(f"The script's own alarm ended the compile ({chosen.failure.text}). It may hang, or be slow.")


def seen_so_far(chosen: ObservedFailure, blamed: Blame) -> str:
    """The failure in words. Of a script's own exception, no more than was seen so far."""
    is_own = chosen.failure.kind is Kind.ACCURACY and chosen.failure.difference is None
    if not is_own or (blamed.settled and blamed.eager is not None):
        return f"{chosen.failure.kind}: {in_words(chosen.signature, chosen.failure)}"
    ends = f"the script ends with {raised_words(chosen.failure)}"
    if blamed.eager is None:
        return f"{ends} (not yet known: whether it does so without torch.compile)"
    return f"{ends} (in one run without torch.compile it passes)"


def entries(case: Case) -> Iterator[str]:
    """The way to compile that each recorded process used last, if that is torch.export or AOTInductor."""
    for process in read_recorded(case.path / "observe" / "probe"):
        settings = process.compile_settings()
        if settings is not None and settings["backend"] in CALLS:
            yield settings["backend"]


def _nothing_failed(
    case: Case, options: ObserveOptions, ui: Ui, seen: ObservedRun, measured: str, symptom: Symptom | None
) -> None:
    """Say that nothing failed. Raises Stop, unless a graph may still show what the user asked for."""
    if symptom is not None and symptom.kind.policy.of_graphs:
        if measured:
            ui.note(measured)
        ui.done(f"nothing raised; looking for {options.check} in each graph")
        return
    recorded = read_recorded(case.path / "observe" / "probe")
    graphs = max(len(seen.summary.compile_ids), sum(len(process.graphs) for process in recorded))
    why = why_nothing(os.environ, saw_torch=bool(seen.findings.processes))
    ended = f"{exit_name(seen.run)} after {seen.run.seconds:.0f} s"
    subject = case.file.subject
    words = subject.argv[1:] if case.file.exported else subject.words  # the script for an exported program is ours
    raise Stop(Exit.NOTHING_FAILED, sentences(ended, graphs, measured, words, why))
