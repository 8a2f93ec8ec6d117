"""Run stages of the pipeline on the case of a command, and print how they ended."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from repro_kit.cli.common.base_command import form_of
from repro_kit.cli.common.values import is_given, make_options, make_ui, merged
from repro_kit.errors import Exit, ReproKitError

if TYPE_CHECKING:
    from repro_kit.case.case import Case
    from repro_kit.commands.intake.open_case import Job
    from repro_kit.pipeline.run import StageEnding


_MOST_NOTES = 5


def open_job(ctx: click.Context, words: Sequence[str], *, programs: bool = False, compile_id: str | None = None) -> Job:
    """The job on the case that the command line asks for, until the command ends.

    `programs`: a program or a trace is taken too; `compile_id` is the graph of a trace.
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
    from repro_kit.cli.common.print_summary import show
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
    show(ui, result, ending.sentence, names)
    ui.result(result.as_json())
    ctx.exit(result.exit)


def _failed(case: Case, names: Sequence[str]) -> str:
    """The name and the note of the first stage that failed."""
    failed = (record for record in map(case.stage, names) if record and record.status == "failed")
    return next((f"{record.name}: {record.note}" for record in failed), "a stage did not run")


def _again() -> str:
    """The command line that resumes: the same one, without `--fresh`."""
    return shlex.join(["repro-kit", *(word for word in sys.argv[1:] if word != "--fresh")])
