"""``repro-kit verify``: does it still fail here?"""

from __future__ import annotations

import os
from pathlib import Path

import click

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import ReproCommand


@click.command("verify", cls=ReproCommand, short_help="Does a bundle still fail here?")
@shared.python_option
@click.option("--against-nightly", is_flag=True, help="Run it with the newest nightly of torch, which is installed.")
@click.option(
    "--timeout", type=shared.POSITIVE, metavar="S", help="Seconds for the run.  [default: what the bundle asks for]"
)
@click.option(
    "--memory", type=shared.POSITIVE, metavar="GIB", help="Memory for the run.  [default: 80 % of the machine's]"
)
@shared.interface_options
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...", type=click.Path(path_type=Path))
@click.pass_context
def command(ctx: click.Context, /, targets: tuple[Path, ...], **_: object) -> None:
    r"""Run a BUNDLE, CASE or repro.py here: does it still fail with the same signature?

    A bundle is a stranger's: it is unpacked with care, shown, and asked for, and runs in a scratch directory with
    private caches, few variables, and limits of time and memory; but with your rights. Several make a table.

    \b
    repro-kit verify train.repro.zip --python .venv/bin/python
    repro-kit verify --yes --against-nightly *.repro.zip

    \b
    Exit 0: same failure; 1: it fails differently; 3: it passes; 125: it cannot run here; 2: no bundle, or refused.
    """
    from repro_kit.builds.interpreters import find_python
    from repro_kit.commands.verify import How, verify
    from repro_kit.session.interrupts import interruptible
    from repro_kit.session.options import RunOptions

    values = shared.merged(ctx)
    python = values["python"] and find_python(values["python"], Path.cwd(), os.environ)
    usual = values["timeout"] or RunOptions.timeout  # a file of settings says nothing against what a bundle asks for
    how = How(python, ctx.params["timeout"], values["memory"], values["against_nightly"], usual)
    with interruptible():
        ctx.exit(verify(targets, how, shared.make_ui(values)))
