"""Run stages on the case of a command, and print how they ended and what to do next."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repro_kit.cli.common.base_command import form_of
from repro_kit.cli.common.values import is_given, make_options, make_ui, merged
from repro_kit.errors import Exit, ReproKitError

if TYPE_CHECKING:
    from repro_kit.case.case import Case
    from repro_kit.commands.intake.open_case import Job
    from repro_kit.pipeline.run import StageEnding
    from repro_kit.pipeline.summary import AsReported, CaseSummary
    from repro_kit.ui import Ui


_NAMED = 3  # other failures
_TITLES = {
    Exit.OK: "Verified: repro.py fails in a fresh process, and passes without torch.compile",
    Exit.UNVERIFIED: "NOT verified",
    Exit.FAILED: "No bundle",
}


def show(ui: Ui, outcome: CaseSummary, sentence: str, names: Sequence[str]) -> None:
    """Print the summary of a command on a case.

    `sentence` says why the pipeline ended early; `names` are the stages that were asked for.
    """
    if ui.unseen:
        ui.print(f"  {ui.unseen} more remark{'s' * (ui.unseen != 1)} with -v")
    if sentence and outcome.error is not None:
        ui.error(sentence)
    elif sentence:
        first, _, rest = sentence.partition("\n")  # the stage itself printed the first line, unless quiet
        kept = "What was recorded is in {}; you may remove it." if outcome.exit is not Exit.OK else "The case: {}"
        case = "" if ui.quiet else kept.format(outcome.case)
        ui.print("\n".join(filter(None, [first if ui.quiet else "", rest, case])))
    elif "bundle" in names:
        ui.panel(_title(outcome), [*_lines(outcome)])
    elif not ui.quiet:
        ui.print(f"The case: {outcome.case}")


def _title(outcome: CaseSummary) -> str:
    if outcome.exit is Exit.USER_BUG:
        return "Verified, and not a compiler bug" if outcome.verified else "NOT verified, and not a compiler bug"
    return _TITLES[outcome.exit]


def _lines(outcome: CaseSummary) -> Iterator[tuple[str, str]]:
    if outcome.title:
        yield "failed", outcome.title
    elif outcome.failure:
        yield "failed", f"{outcome.failure}: {outcome.signature}"
    if outcome.moved:
        yield "device", outcome.moved
    yield "where", outcome.sentence or (f"layer {outcome.layer}" if outcome.layer else "the layer is unknown")
    yield "size", _size(outcome)
    if outcome.passes_with and outcome.level == "program":
        yield "passes", f"after this change: {outcome.passes_with}"
    if outcome.workaround:
        yield "instead", f"{outcome.workaround} passes; repro-kit ablate {_quoted(outcome.case)} tries it on the script"
    if outcome.flaky:
        yield "flaky", outcome.flaky
    if outcome.exit is Exit.FAILED:
        yield "error", outcome.error or "a stage failed"
        yield "case", str(outcome.case)
        return
    why = outcome.reason or "repro.py did not fail the same way when it was checked"
    yield "bundle", str(outcome.bundle) if outcome.verified else f"{outcome.bundle}: NOT verified: {why}"
    if outcome.sources:
        yield "source", f"your source files are in it: {', '.join(outcome.sources)}"
    yield "issue", _issue(outcome)
    bundle = _quoted(outcome.bundle)
    yield "page", f"{Path(outcome.case or '.') / 'bundle' / 'report.html'}, or repro-kit show {bundle}"
    yield "check", f"repro-kit verify {bundle}"
    if outcome.others:
        yield "also", _others(outcome)


def _quoted(path: str | None) -> str:
    return shlex.quote(str(path))


def _issue(outcome: CaseSummary) -> str:
    """Where `issue.md` goes."""
    from repro_kit.bundle.story.addressee import Addressee, addressee_of
    from repro_kit.bundle.story.issue_form import FORM

    report = Path(outcome.case or ".") / "bundle" / "issue.md"
    to = addressee_of(outcome.layer, outcome.cause)
    if not to.takes_pytorch:
        return f"{report}, for {to.maintainer}: this is not a PyTorch bug"
    if not outcome.verified:
        form = FORM if to is Addressee.PYTORCH else to.maintainer
        return f"{report} says why the bundle is not verified; mend that before it goes to {form}"
    if to is Addressee.PYTORCH:
        return f"paste {report} into {FORM}; nothing needs to be attached"
    return f"{report}, first for {to.maintainer}; then for {FORM}"


def _size(outcome: CaseSummary) -> str:
    if outcome.level == "script" and (outcome.reason or outcome.statements is None):
        why = f": {outcome.reason}" if outcome.reason and outcome.verified else ""
        return f"not minimized; the bundle runs the script{why}"
    if outcome.statements is None:
        return "not minimized"
    before, after = outcome.statements_before, outcome.statements
    noun = "operator" if outcome.level == "program" else "statement"
    from_ = f", from {before}" if before not in (None, after) else ""
    minimal = "; nothing more can be removed" if outcome.minimal else ""
    stopped = f"; stopped by its {outcome.stopped}: --{outcome.stopped} allows more" if outcome.stopped else ""
    return f"{after} {noun}{'s' * (after != 1)}{from_}{minimal}{stopped}"


def _others(outcome: CaseSummary) -> str:
    listed = "; ".join(f"--failure {other.failure}: {other.signature}" for other in outcome.others[:_NAMED])
    more = len(outcome.others) - _NAMED
    return f"other failures; to take one: {listed}" + (f"; and {more} more" if more > 0 else "")


_MOST_NOTES = 5


def open_job(
    ctx: click.Context,
    words: Sequence[str],
    *,
    programs: bool = False,
    compile_id: str | None = None,
    which: int | None = None,
) -> Job:
    """The job on the case that the command line asks for, until the command ends.

    `programs`: a program or a trace is taken too; `compile_id` names the graph of a trace, `which` numbers a program.
    """
    from repro_kit.commands.intake.open_case import Asked, open_case

    values = merged(ctx)
    asked = Asked(
        form_of(ctx),
        tuple(words),
        make_options(values),
        {name for name, value in ctx.params.items() if value is not None and is_given(ctx, name)},
        values["python"],
        values["fresh"],
        ctx.command_path,
        {flag for param in ctx.command.params for flag in (*param.opts, *param.secondary_opts)},
        programs,
        compile_id,
        which,
    )
    return ctx.with_resource(open_case(asked, make_ui(values)))


def run_one_stage(
    ctx: click.Context, job: Job, name: str, report: Callable[[Job, StageEnding], StageEnding] | None = None
) -> None:
    """Run stage `name` on the job's case, after the stages that it needs and the case lacks.

    `report` may change how the command ends.
    """
    work(ctx, job, [*missing(job, name), name], again=[name], report=report)


def missing(job: Job, name: str, *, uses: bool = False) -> list[str]:
    """The stages that stage `name` needs and the case lacks; with `uses`, also those whose results are optional."""
    from repro_kit.pipeline.run import REGISTRY, prerequisites

    wanted = [*prerequisites(name), *(REGISTRY[name].uses if uses else ())]
    return [need for need in wanted if (record := job.case.stage(need)) is None or record.status != "done"]


def work(
    ctx: click.Context,
    job: Job,
    names: Sequence[str],
    *,
    again: Sequence[str] = (),
    report: Callable[[Job, StageEnding], StageEnding] | None = None,
) -> None:
    """Run the stages, show the summary (or the JSON), and exit with the exit code.

    `report` may change how the command ends.
    """
    from repro_kit.pipeline.run import StageEnding, collect
    from repro_kit.pipeline.summary import case_summary

    case, ui = job.case, job.ui
    ui.most = 0 if report is not None else _MOST_NOTES
    if job.resumed and not again:
        ui.note(f"Resuming {case.path}: only missing results are computed (--fresh starts again).")
    started = time.monotonic()
    error = None
    try:
        ending = collect(case, job.options, ui, names, again=again)
        ending = report(job, ending) if report is not None else ending
    except KeyboardInterrupt:
        ending = StageEnding(Exit.INTERRUPTED, f"Interrupted. {case.path} is kept. To resume: {_again()}")
        error = "interrupted"
    except ReproKitError as problem:
        ending, error = StageEnding(problem.exit_code, str(problem)), str(problem)
    if error is None and ending.exit_code in (Exit.FAILED, Exit.USAGE):
        error = ending.sentence or _failed(case, names)
    result = case_summary(
        case, ending.exit_code, seconds=time.monotonic() - started, error=error, notes=[*ui.notes, ending.sentence]
    )
    if job.told is not None:
        result = replace(result, issue=told_of(job, ending))
    show(ui, result, ending.sentence, names)
    if result.issue is not None:
        ui.print(result.issue.sentence)
    ui.result(result.as_json())
    ctx.exit(result.exit)


def told_of(job: Job, ending: StageEnding) -> AsReported | None:
    """Whether the program of an issue's text failed as the text reports; None: the run was interrupted."""
    from repro_kit.case.stage_results import CAPTURE, ENVIRONMENT, OBSERVATION
    from repro_kit.commands.intake.issue_answer import Ran
    from repro_kit.pipeline.summary import AsReported

    case = job.case
    if job.told is None or ending.exit_code is Exit.INTERRUPTED:
        return None
    seen = case.load(OBSERVATION) if case.holds(OBSERVATION) else None
    env = case.load(ENVIRONMENT) if case.holds(ENVIRONMENT) else None
    alone = case.load(CAPTURE).verdict if case.holds(CAPTURE) else None
    shown = [failure.failure for failure in seen.failures] if seen else []
    shown = shown or [failure for failure in (alone and alone.failure,) if failure]
    answer = job.told.answer(
        Ran(
            ending.exit_code,
            ending.sentence or "",
            tuple(shown),
            seen.graphs if seen else None,
            seen.compared if seen else 0,
            (env.torch or "") if env else "",
            env.accelerator if env else None,
        )
    )
    return AsReported(answer.answer, answer.sentence)


def _failed(case: Case, names: Sequence[str]) -> str:
    """The name and the note of the first stage that failed."""
    failed = (record for record in map(case.stage, names) if record and record.status == "failed")
    return next((f"{record.name}: {record.note}" for record in failed), "a stage did not run")


def _again() -> str:
    """The command line that resumes: the same one, without `--fresh`."""
    return shlex.join(["repro-kit", *(word for word in sys.argv[1:] if word != "--fresh")])
