"""``repro-kit bundle``: one stage of the pipeline."""

from __future__ import annotations

import click

from repro_kit.cli.common.base_command import SubjectCommand, command
from repro_kit.cli.common.values import given
from repro_kit.cli.common.work import open_job, run_one_stage
from repro_kit.cli.output.filing import Filing
from repro_kit.session.options import BUNDLE


@command("bundle", cls=SubjectCommand, own=(BUNDLE,))
@click.argument("subject", nargs=-1, type=click.Path())
def bundle(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Check the reduced program in a fresh process, and pack the bundle.

    SCRIPT may also be a case. Earlier stages run first if their results are missing.

    \b
    repro-kit bundle train.repro
    """
    filing = given(Filing, ctx.params)
    filing.check()
    run_one_stage(ctx, open_job(ctx, subject), "bundle", report=filing)
