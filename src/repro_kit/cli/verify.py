"""``repro-kit verify``: does a bundle still fail here?"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from repro_kit.cli.common.base_command import command
from repro_kit.cli.common.values import build_choice, given, is_given, make_ui, merged
from repro_kit.errors import Exit, UsageError
from repro_kit.options.builds import VerifyOptions


@command("verify")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...", type=click.Path(path_type=Path))
def verify(ctx: click.Context, /, targets: tuple[Path, ...], **_: object) -> None:
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
    With several builds, the newest one decides. --expect passes, in CI: 0 if it passes, 1 if it fails.
    """
    from repro_kit.builds.interpreters import find_python
    from repro_kit.commands.verify import verify
    from repro_kit.session.system import interruptible

    values = merged(ctx)
    options = given(VerifyOptions, values)
    if options.timeout is not None:  # a file of settings says nothing against what a bundle asks for
        options = replace(options, timeout=ctx.params["timeout"], usual=options.timeout)
    if any(values[name] for name in ("on", "releases", "nightly", "index_url", "wheels")):
        ctx.exit(_on_builds(targets, values, options))
    for option in ("package", "markdown", "cache", "cache_size"):
        if is_given(ctx, option):
            flag, others = f"--{option.replace('_', '-')}", "--on, --releases, --nightly, --index-url or --wheels"
            raise UsageError(f"{flag} needs builds: give {others} as well.")
    python = options.python and find_python(options.python, Path.cwd(), os.environ)
    with interruptible():
        ctx.exit(verify(targets, replace(options, python=python), make_ui(values)))


def _on_builds(targets: tuple[Path, ...], values: dict[str, Any], options: VerifyOptions) -> Exit:
    from repro_kit.commands.verify import TableRequest, verify_on_builds
    from repro_kit.session.system import interruptible

    if options.against_nightly:
        raise UsageError("Give --against-nightly, or the builds, not both.")
    limits = (options.timeout, options.usual, options.memory)
    request = TableRequest(build_choice(values), *limits, values["markdown"], options.expect)
    with interruptible():
        return verify_on_builds(targets, request, make_ui(values))
