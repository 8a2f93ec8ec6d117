"""``repro-kit show`` and ``repro-kit diff``: read bundles and cases, and run nothing."""

from __future__ import annotations

from dataclasses import asdict
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
    from repro_kit.serialize import to_data

    story, ui = story_at(target), make_ui(ctx.params)
    print_story(story, ui)
    ui.result(to_data(story))


@command("diff")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
def diff(ctx: click.Context, /, a: Path, b: Path, **_: object) -> None:
    r"""Compare two bundles or cases: failure, versions, settings, ablation, program. Nothing is run.

    Exit 0: the failures are the same; 1: they differ.

    \b
    repro-kit diff before.repro.zip after.repro.zip
    """
    from repro_kit.bundle.story.compare import compare
    from repro_kit.cli.output.telling import print_differences
    from repro_kit.commands.show import story_at
    from repro_kit.errors import Exit

    comparison, ui = compare(story_at(a), story_at(b)), make_ui(ctx.params)
    print_differences(comparison, ("A", "B") if a.name == b.name else (a.name, b.name), ui)
    ui.result(asdict(comparison))
    ctx.exit(Exit.OK if comparison.same else Exit.FAILED)
