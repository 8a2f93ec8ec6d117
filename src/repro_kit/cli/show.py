"""``repro-kit show``: a case or a bundle in the terminal."""

from __future__ import annotations

from pathlib import Path

import click

from repro_kit.cli.common.base_command import command
from repro_kit.cli.common.values import make_ui


@command("show")
@click.argument("target", type=click.Path(path_type=Path))
def show(ctx: click.Context, /, target: Path, **_: object) -> None:
    r"""Show the failure of a bundle or case, the layer at fault, the reproducer, and what passes. Nothing is run.

    \b
    repro-kit show train.repro.zip
    """
    from repro_kit.cli.output.telling import print_story
    from repro_kit.commands.show import story_at
    from repro_kit.model.serialize import to_data

    story, ui = story_at(target), make_ui(ctx.params)
    print_story(story, ui)
    ui.result(to_data(story))
