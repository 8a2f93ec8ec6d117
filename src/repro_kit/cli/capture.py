"""``repro-kit capture``: one stage of the pipeline."""

from __future__ import annotations

import click

from repro_kit.cli.common.base_command import SubjectCommand, command
from repro_kit.cli.common.work import open_job, run_one_stage


@command("capture", cls=SubjectCommand, own=())
@click.argument("subject", nargs=-1, type=click.Path())
def capture(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Capture the failing graph as a standalone program, and check that the program fails on its own.

    SCRIPT may also be a case. Earlier stages run first if their results are missing.

    \b
    repro-kit capture train.repro
    """
    run_one_stage(ctx, open_job(ctx, subject), "capture")
