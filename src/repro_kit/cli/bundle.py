"""``repro-kit bundle``: one stage of the pipeline."""

from __future__ import annotations

import click

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import SubjectCommand
from repro_kit.cli.common.single import run_one
from repro_kit.cli.common.work import case_or_subject
from repro_kit.cli.output.filing import Filing


@click.command("bundle", cls=SubjectCommand, own=(shared.BUNDLE,), short_help="Check the repro and pack the bundle.")
@shared.subject_options
@shared.stage_options
@shared.bundle_options
@click.option("--open", "open_", is_flag=True, help="Print and open a link to a new issue with its text filled in.")
@click.option("--gh", is_flag=True, help="Show the issue, ask, and file it with GitHub's `gh`.")
@click.option("--comment", metavar="N", help="Write a comment on issue N of PyTorch instead; --gh sends it.")
@shared.interface_options
@click.argument("subject", nargs=-1, type=click.Path())
@click.pass_context
def command(
    ctx: click.Context, /, subject: tuple[str, ...], open_: bool, gh: bool, comment: str | None, **_: object
) -> None:
    r"""Check the reduced program in a fresh process, and pack the bundle.

    SCRIPT may also be a case. Earlier stages run first where their results are missing.

    \b
    repro-kit bundle train.repro
    """
    filing = Filing(open_, gh, comment or "")
    filing.check()
    run_one(ctx, case_or_subject(ctx, subject), "bundle", report=filing)
