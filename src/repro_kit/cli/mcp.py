"""``repro-kit mcp``: repro-kit as a server of the Model Context Protocol."""

from __future__ import annotations

import click

from repro_kit.cli.common.base_command import command
from repro_kit.errors import UsageError


@command("mcp")
def mcp(_: click.Context) -> None:
    r"""Serve collect, explain, verify, bisect, show and farm_status as tools, on stdin and stdout.

    Paths are relative to the current directory. Nothing runs code without consent: the client asks its user, or calls
    again with the consent that the first answer names.

    \b
    repro-kit mcp
    """
    try:
        from repro_kit.commands.mcp.server import serve
    except ImportError as error:
        raise UsageError(f"mcp needs more: pip install 'repro-kit[mcp]' ({error}).") from error
    serve()
