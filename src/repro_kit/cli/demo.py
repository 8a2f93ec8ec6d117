"""``repro-kit demo``: a script that fails, to try repro-kit on."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import cast

import click

from repro_kit.cli.common.base_command import command
from repro_kit.cli.common.values import make_ui, merged


@command("demo")
def demo(ctx: click.Context, /, run: bool, **_: object) -> None:
    r"""Write a script that fails with this torch to the current directory, and say how to collect its failure.

    It is the script of the tutorial, or, with torch 2.14 and newer, another one. No file is overwritten.

    \b
    repro-kit demo
    repro-kit demo --run
    """
    from repro_kit.builds.interpreters import find_python
    from repro_kit.commands.demo import fitting, write_demo
    from repro_kit.session.script.subject_check import check_interpreter

    values = merged(ctx)
    ui = make_ui(values)
    python = find_python(values["python"], Path.cwd(), os.environ)
    torch = check_interpreter(python, Path.cwd(), os.environ)
    script = write_demo(fitting(torch), Path.cwd())
    words = ["collect", *(["--python", values["python"]] if values["python"] else []), script.name]
    if run:
        flags = [f"--{name}" for name in ("json", "quiet", "verbose") if values[name]]
        collect = cast(click.Group, ctx.find_root().command).get_command(ctx, words[0])
        assert collect is not None
        ctx.exit(collect.main([*flags, *words[1:]], prog_name="repro-kit collect", standalone_mode=False))
    ui.print(f"{script.name} fails with torch {torch}. To collect its failure: {shlex.join(['repro-kit', *words])}")
    ui.result({"script": str(script), "command": ["repro-kit", *words]})
