"""``repro-kit verify``: does a bundle still fail here?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from repro_kit.cli.common import shared_options as shared
from repro_kit.cli.common.base_command import ReproCommand
from repro_kit.cli.common.numbers import POSITIVE
from repro_kit.errors import Exit, UsageError


@click.command("verify", cls=ReproCommand, short_help="Check whether a bundle still fails here.")
@shared.python_option
@click.option("--against-nightly", is_flag=True, help="Install the newest nightly of torch, and run with it.")
@click.option(
    "--timeout",
    type=POSITIVE,
    metavar="S",
    help="Time limit of the run, in seconds.  [default: the bundle's own]",
)
@click.option(
    "--memory",
    type=POSITIVE,
    metavar="GIB",
    help="Memory limit of the run, in GiB.  [default: 80 % of the machine's]",
)
@shared.build_options
@click.option("--nightly", metavar="PLATFORM", help="Take the builds from the nightlies for cpu, cu126, rocm6.4, xpu …")
@click.option("--markdown", is_flag=True, help="Print the table of the builds as Markdown.")
@shared.interface_options
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...", type=click.Path(path_type=Path))
@click.pass_context
def command(ctx: click.Context, /, targets: tuple[Path, ...], **_: object) -> None:
    r"""Run a bundle, case or repro.py here, and check whether it still fails in the same way.

    A bundle may come from a stranger. repro-kit unpacks it with care, shows the code, and asks before it runs. The
    run has a scratch directory, private caches, few variables, and limits of time and memory, but your rights.
    Several targets make a table. --on and --releases run one bundle on several builds, and make their table.

    \b
    repro-kit verify train.repro.zip --python .venv/bin/python
    repro-kit verify --yes --against-nightly *.repro.zip
    repro-kit verify train.repro.zip --on 2.12.0,2.13.0

    \b
    Exit 0: same failure; 1: different failure; 3: passes; 125: cannot run here; 2: not a bundle, or refused.
    With several builds, the newest one decides.
    """
    from repro_kit.builds.interpreters import find_python
    from repro_kit.commands.verify import How, verify
    from repro_kit.session.interrupts import interruptible
    from repro_kit.session.options import RunOptions

    values = shared.merged(ctx)
    if any(values[name] for name in ("on", "releases", "nightly", "index_url", "wheels")):
        ctx.exit(_on_builds(targets, values, ctx.params["timeout"]))
    for option in ("package", "markdown", "cache", "cache_size"):
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            flag, others = f"--{option.replace('_', '-')}", "--on, --releases, --nightly, --index-url or --wheels"
            raise UsageError(f"{flag} needs builds: give {others} as well.")
    python = values["python"] and find_python(values["python"], Path.cwd(), os.environ)
    usual = values["timeout"] or RunOptions.timeout  # a file of settings says nothing against what a bundle asks for
    how = How(python, ctx.params["timeout"], values["memory"], values["against_nightly"], usual)
    with interruptible():
        ctx.exit(verify(targets, how, shared.make_ui(values)))


def _on_builds(targets: tuple[Path, ...], values: dict[str, Any], timeout: float | None) -> Exit:
    from repro_kit.commands.release_table import TableRequest, verify_on_builds
    from repro_kit.session.interrupts import interruptible

    if values["against_nightly"]:
        raise UsageError("Give --against-nightly, or the builds, not both.")
    usual = values["timeout"] or TableRequest.usual
    request = TableRequest(shared.build_choice(values), timeout, usual, values["memory"], values["markdown"])
    with interruptible():
        return verify_on_builds(targets, request, shared.make_ui(values))
