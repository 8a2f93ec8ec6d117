"""``repro-kit ablate``: one stage of the pipeline."""

from __future__ import annotations

from dataclasses import replace

import click

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import SubjectCommand
from repro_kit.cli.common.single import missing
from repro_kit.cli.common.work import case_or_subject, work
from repro_kit.errors import UsageError
from repro_kit.model.ablation.evidence import STEPS


def _steps(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check the names of the steps. Raises ReproKitError for an unknown step."""
    for name in filter(None, (value or "").split(",")):
        if name not in (*STEPS[1:], "auto"):
            raise UsageError(f"--narrow knows no step {name!r}; it knows {', '.join(STEPS[1:])}.")
    return value


@click.command("ablate", cls=SubjectCommand, own=(shared.ABLATION,), short_help="Name the layer at fault.")
@shared.subject_options
@shared.stage_options
@shared.matrix_options
@click.option("--plan", "plan", is_flag=True, help="Show the ways to compile without trying them.")
@click.option(
    "--expect", multiple=True, metavar="KEY=VALUE", help="Exit 1 unless this holds. KEY: layer, cause, fails, passes."
)
@click.option("--against", metavar="FILE", help="Compare with the ablation of this file, case or bundle.")
@click.option("--markdown", is_flag=True, help="Print the ablation as Markdown, for an issue.")
@shared.interface_options
@click.option(
    "--narrow",
    metavar="STEPS",
    default="auto",
    callback=_steps,
    help=f"Narrowing steps: {', '.join(STEPS[1:])}.  [default: those that take a few minutes at most]",
)
@click.option("--no-narrow", "narrow", flag_value="", help="Name the layer only.")
@click.argument("subject", nargs=-1, type=click.Path())
@click.pass_context
def command(
    ctx: click.Context,
    /,
    subject: tuple[str, ...],
    plan: bool,
    expect: tuple[str, ...],
    against: str | None,
    markdown: bool,
    **_: object,
) -> None:
    r"""Try backends, dynamic shapes, modes and settings, and name the layer of the stack at fault.

    SCRIPT may also be a case. Earlier stages run first where their results are missing. What was tried
    before is not tried again.

    \b
    repro-kit ablate train.repro
    repro-kit ablate --preset full --axis inductor.pattern_matcher=True,False train.repro
    repro-kit ablate --plan train.repro
    repro-kit ablate --expect layer=inductor train.py
    """
    from repro_kit.cli.output.ablation import AblationReport, show_plan

    report = AblationReport.asked(expect, against, markdown)
    job = case_or_subject(ctx, subject)
    if ctx.params["workarounds"] is None:
        job = replace(job, options=job.options.with_(workarounds=True))
    if plan:
        show_plan(job)
        return
    before = [name for name in missing(job, "ablate", uses=True) if name != "minify"]  # a matrix needs no reduction
    work(ctx, job, [*before, "ablate"], again=["ablate"], report=report)
