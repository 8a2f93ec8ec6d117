"""``repro-kit observe``: one stage of the pipeline."""

from __future__ import annotations

import click

from repro_kit.cli.common.base_command import SubjectCommand, command
from repro_kit.cli.common.work import open_job, run_one_stage
from repro_kit.session.options import FAILURE, RUN


@command("observe", cls=SubjectCommand, own=(RUN, FAILURE))
@click.argument("subject", nargs=-1, type=click.Path())
def observe(ctx: click.Context, /, subject: tuple[str, ...], **_: object) -> None:
    r"""Run the script once, unchanged, and record its failures, trace, logs and environment.

    SCRIPT may also be a case.

    \b
    repro-kit observe train.py --epochs 1
    """
    run_one_stage(ctx, open_job(ctx, subject), "observe")
