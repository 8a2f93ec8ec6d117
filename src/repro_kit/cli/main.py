"""The `repro-kit` command: finds the subcommands, and turns every outcome into an exit code."""

from __future__ import annotations

import contextlib
import difflib
import errno
import importlib
import io
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

import click

from repro_kit import __version__
from repro_kit.cli.common.base_command import ReproCommand, ReproGroup, echo
from repro_kit.errors import Exit, OutputLost

#: The commands as the help groups them, each with its module and what the help says; the pipeline's are in its order.
GROUPS = {
    "Every day": {
        "collect": ("repro_kit.cli.stages", "The whole pipeline: from a failing script to a bundle."),
        "demo": ("repro_kit.cli.utilities", "Write a small script that fails, to try repro-kit on."),
        "show": ("repro_kit.cli.stories", "Summarize a bundle or a case."),
        "verify": ("repro_kit.cli.over_builds", "Check whether a bundle still fails here."),
        "check": ("repro_kit.cli.stages", "Check in CI that compiled code does what eager does."),
        "explain": ("repro_kit.cli.explain", "Explain graph breaks and recompiles, with advice."),
    },
    "Look closer, stage by stage": {
        "observe": ("repro_kit.cli.stages", "Run the script once, and record how it fails."),
        "capture": ("repro_kit.cli.stages", "Capture the failing graph as a program."),
        "minify": ("repro_kit.cli.stages", "Reduce the program."),
        "ablate": ("repro_kit.cli.stages", "Name the layer at fault."),
        "bundle": ("repro_kit.cli.stages", "Check the repro and pack the bundle."),
        "diff": ("repro_kit.cli.stories", "Compare two bundles or cases."),
        "env": ("repro_kit.cli.utilities", "Print the environment."),
    },
    "Over builds of torch": {
        "bisect": ("repro_kit.cli.over_builds", "Find the nightly, release or commit that broke it."),
        "nightly": ("repro_kit.cli.over_builds", "Run a folder of cases on the newest build, every night."),
        "farm": ("repro_kit.cli.over_builds", "Keep many cases, run them on many builds, and follow their states."),
    },
    "For machines": {
        "mcp": ("repro_kit.cli.utilities", "Serve repro-kit to agents (Model Context Protocol)."),
        "completion": ("repro_kit.cli.utilities", "Print a shell's completion script."),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}

_EPILOG = """\b
Exit codes: 0 done (a verified bundle), 1 failed, 2 bad input, 3 nothing failed,
4 fails without torch.compile too, 5 bundle not verified, 6 rounding and no bug, 125 cannot run here,
130 interrupted."""


class LazyGroup(ReproGroup):
    """Loads a subcommand's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the help."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups."""
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), words) for name, (_, words) in commands.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, from the module that holds it."""
        if cmd_name not in COMMANDS:
            return None
        module, words = COMMANDS[cmd_name]
        loaded: click.Command = getattr(importlib.import_module(module), cmd_name)
        loaded.short_help = words
        return loaded

    def meant(self, ctx: click.Context, args: list[str]) -> str:
        """Also for a script, a program, a bundle or a case in a command's place."""
        if args[0].endswith(".py"):
            return f"To collect its failure: repro-kit collect {shlex.join(args)}"
        if Path(args[0]).exists():
            held = Path(args[0]).is_dir() or args[0].endswith((".zip", ".tar.gz"))
            return f"To look at it: repro-kit {'show' if held else 'explain'} {shlex.quote(args[0])}"
        if shutil.which(args[0]) is not None:
            return f"To collect its failure: repro-kit collect -- {shlex.join(args)}"
        return super().meant(ctx, args)


@click.command("repro-kit", cls=LazyGroup, epilog=_EPILOG)
@click.version_option(__version__, prog_name="repro-kit", message="%(prog)s %(version)s")
def cli() -> None:
    r"""Turn a failing torch.compile call into a verified, minimal, self-contained bug report.

    \b
    repro-kit collect train.py --epochs 1     the whole pipeline
    repro-kit show train.repro.zip            what failed, and why
    repro-kit verify train.repro.zip          does it still fail here?
    repro-kit explain train.py                graph breaks and recompiles, with advice
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit. No traceback is ever shown."""
    os.environ.pop("REPRO_KIT", None)  # repro-kit records its own runs
    sys.stdout, sys.stderr = _checked_stream(sys.stdout), _checked_stream(sys.stderr)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        code = _run(list(sys.argv[1:] if args is None else args))
    sys.exit(code)


def _run(args: list[str]) -> int:
    try:
        code = _answered(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        return _without_output(error)


def _answered(args: list[str]) -> int:
    try:
        code = cli.main(args, prog_name="repro-kit", standalone_mode=False)
        return code if isinstance(code, int) else Exit.OK
    except click.ClickException as error:
        _usage_error(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        echo("interrupted", err=True, label="error:")
        return Exit.INTERRUPTED


class _Output(io.FileIO):
    """The file of stdout or stderr, which raises OutputLost if it cannot be written."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputLost(error.errno, error.strerror) from error


def _checked_stream(stream: TextIO | None) -> TextIO:
    """`stream`, which raises OutputLost if it cannot be written; silence in place of one that the shell has closed."""
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if stream not in (sys.__stdout__, sys.__stderr__):  # a test's own
        stream.reconfigure(errors="replace")
        return stream
    file = io.BufferedWriter(_Output(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(file, stream.encoding, "replace", line_buffering=stream.line_buffering, write_through=True)


def _without_output(error: OSError) -> int:
    """Leave without Python's complaint about the unflushed rest; in silence if the reader has gone (`| head`)."""
    for stream in (sys.stdout, sys.stderr):
        if stream is sys.stderr and error.errno != errno.EPIPE:
            with contextlib.suppress(OSError):
                echo(f"The output cannot be written: {error.strerror}.", err=True, label="error:")
        with contextlib.suppress(OSError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return Exit.FAILED


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a Python warning safely: it may quote untrusted code."""
    if not issubclass(category, SyntaxWarning):  # about code that is only parsed
        echo(f"{filename}:{lineno}: {category.__name__}: {message}", err=True)


def _no_option(error: click.NoSuchOption) -> str:
    close = difflib.get_close_matches(error.option_name, error.possibilities or (), n=1)
    return f"There is no option {error.option_name}.{f' Did you mean {close[0]}?' if close else ''}"


def _usage_error(error: click.ClickException) -> None:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    message = _no_option(error) if isinstance(error, click.NoSuchOption) else error.format_message().rstrip()
    message += "" if message.endswith((".", "?")) else "."
    echo(f"{message} See {ctx.command_path} --help." if ctx is not None else message, err=True, label="error:")
    if ctx is not None and isinstance(ctx.command, ReproCommand):
        ctx.command.print_error(ctx, error.format_message(), error.exit_code)
