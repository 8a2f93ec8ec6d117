"""``repro-kit completion``: the script that makes a shell complete repro-kit's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from repro_kit.cli.common.base_command import command
from repro_kit.cli.common.echo import echo


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(ctx: click.Context, shell: str) -> None:
    r"""Print the completion script of a shell.

    \b
    eval "$(repro-kit completion bash)"        in ~/.bashrc; zsh likewise
    repro-kit completion fish | source         in config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}.", ctx)
    echo(kind(ctx.find_root().command, {}, "repro-kit", "_REPRO_KIT_COMPLETE").source())
