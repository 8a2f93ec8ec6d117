"""``repro-kit capture``: one stage of the pipeline."""

from __future__ import annotations

import click

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import SubjectCommand
from repro_kit.cli.common.single import run_one
from repro_kit.cli.common.work import case_or_subject


@click.command("capture", cls=SubjectCommand, own=(), short_help="Capture the failing graph as a program.")
@shared.subject_options
@shared.stage_options
@shared.interface_options
@click.argument("subject", nargs=-1, type=click.Path())
@click.pass_context
def command(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Capture the failing graph as a standalone program, and check that the program fails on its own.

    SCRIPT may also be a case. Earlier stages run first where their results are missing.

    \b
    repro-kit capture train.repro
    """
    run_one(ctx, case_or_subject(ctx, subject), "capture")
