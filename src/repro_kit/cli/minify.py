"""``repro-kit minify``: reduce a captured program."""

from __future__ import annotations

from pathlib import Path

import click

from repro_kit.cli import options as shared
from repro_kit.cli.command import SubjectCommand
from repro_kit.cli.single import run_one
from repro_kit.cli.work import case_or_subject, program_case


@click.command("minify", cls=SubjectCommand, short_help="Reduce the program.")
@shared.subject_options
@shared.stage_options
@shared.interface_options
@click.option("--compile-id", metavar="ID", help="Graph of a trace.  [default: that of the first failure]")
@click.argument("subject", nargs=-1, type=click.Path())
@click.pass_context
def command(ctx: click.Context, /, subject: tuple[str, ...], compile_id: str | None, **_: object) -> None:
    r"""Reduce the captured program while it fails with the same signature.

    SCRIPT may be a case as well, a program, an fx_graph_runnable, the repro.py or minifier_launcher.py of PyTorch's
    minifier, or a TORCH_TRACE log or directory. What the stage needs is run before it where it is missing.

    \b
    repro-kit minify train.repro
    repro-kit minify program.py
    repro-kit minify --compile-id 2/0 /tmp/trace
    """
    job = program_case(ctx, Path(subject[0]), compile_id) if len(subject) == 1 else None
    run_one(ctx, job or case_or_subject(ctx, subject), "minify")
