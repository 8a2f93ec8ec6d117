"""``repro-kit ablate``: one stage of the pipeline."""

from __future__ import annotations

import click

from repro_kit.cli import options as shared
from repro_kit.cli.command import SubjectCommand
from repro_kit.cli.single import run_one
from repro_kit.cli.work import case_or_subject
from repro_kit.errors import ReproKitError
from repro_kit.model.evidence import STEPS


def _steps(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The steps as given; raises ReproKitError for one that there is not."""
    for name in filter(None, (value or "").split(",")):
        if name not in STEPS[1:]:
            raise ReproKitError(f"--narrow knows no step {name!r}; it knows {', '.join(STEPS[1:])}.")
    return value


@click.command("ablate", cls=SubjectCommand, short_help="Name the layer at fault.")
@shared.subject_options
@shared.stage_options
@shared.interface_options
@click.option(
    "--narrow", metavar="STEPS", callback=_steps, help=f"Which steps of narrowing to take: {', '.join(STEPS[1:])}."
)
@click.option("--no-narrow", "narrow", flag_value="", help="Stop at the layer.")
@click.argument("subject", nargs=-1, type=click.Path())
@click.pass_context
def command(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Try backends, dynamic shapes and modes, and name the layer of the stack at fault.

    SCRIPT may be a case as well. What the stage needs is run before it where it is missing.

    \b
    repro-kit ablate train.repro
    """
    run_one(ctx, case_or_subject(ctx, subject), "ablate")
