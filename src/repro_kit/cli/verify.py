"""``repro-kit verify``: does it still fail here?"""

from __future__ import annotations

import os
from pathlib import Path

import click

from repro_kit.cli import options as shared
from repro_kit.cli.command import ReproCommand


@click.command("verify", cls=ReproCommand, short_help="Does a bundle still fail here?")
@shared.python_option
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds for the run.")
@shared.interface_options
@click.argument("target", type=click.Path(path_type=Path))
@click.pass_context
def command(ctx: click.Context, /, target: Path, **_: object) -> None:
    r"""Run a BUNDLE, CASE or repro.py here: does it still fail with the same signature?

    Shows what it is about to run and asks first. Exit 0: same failure; 3: it passes; 1: it fails differently.

    \b
    repro-kit verify train.repro.zip --python .venv/bin/python
    """
    from repro_kit.case import Case
    from repro_kit.errors import ReproKitError
    from repro_kit.stages.interrupts import interruptible
    from repro_kit.stages.place import is_case
    from repro_kit.stages.subject import find_python
    from repro_kit.stages.verify import verify

    values = shared.merged(ctx)
    if not target.exists():
        raise ReproKitError(f"{target} does not exist; give a bundle (.zip), a case or a repro.py.")
    python = values["python"] and find_python(values["python"], Path.cwd(), os.environ)
    if python is None and is_case(target):
        python = Case.open(target).file.subject.python
    with interruptible():
        ctx.exit(verify(target, python=python, options=shared.make_options(values), ui=shared.make_ui(values)))
