"""``repro-kit observe``: one stage of the pipeline."""

from __future__ import annotations

import click

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import SubjectCommand
from repro_kit.cli.common.single import run_one
from repro_kit.cli.common.work import case_or_subject


@click.command(
    "observe",
    cls=SubjectCommand,
    own=(shared.RUN, shared.FAILURE),
    short_help="Run the script once, and record how it fails.",
)
@shared.subject_options
@shared.stage_options
@shared.interface_options
@click.argument("subject", nargs=-1, type=click.Path())
@click.pass_context
def command(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Run the script once, unchanged, and record its failures, trace, logs and environment.

    SCRIPT may also be a case.

    \b
    repro-kit observe train.py --epochs 1
    """
    run_one(ctx, case_or_subject(ctx, subject), "observe")
