"""What all commands share: how they print, where the user's command begins, and how errors end them."""

from __future__ import annotations

import difflib
import json
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from repro_kit.cli.common.click_options import with_options, write_options, write_own_options
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.visible import visible, visible_json


def echo(text: str, *, err: bool = False, label: str = "") -> None:
    """Print `text` behind our own coloured `label`; characters that control a terminal are spelt out."""
    head = f"{click.style(label, fg='red', bold=True)} " if label else ""
    click.echo(head + visible(text), err=err, color=False if os.environ.get("NO_COLOR") else None)


def echo_json(data: Any) -> None:
    """Print `data` as JSON on stdout."""
    click.echo(visible_json(json.dumps(data, indent=2)))


_JSON = "repro_kit.json"
_FORM = "repro_kit.form"


class _Helped(click.Command):
    """A command with `-h`, wherever its help option is made first: click keeps the first one."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """The same names for every command."""
        return ["-h", "--help"]


class ReproGroup(_Helped, click.Group):
    """A group of commands. Without arguments, it shows its help."""

    def __init__(self, name: str | None, *, help: str | None = None, **kwargs: Any) -> None:
        super().__init__(name, help=unescaped(help), **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help if there are no arguments."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, with a guess for an unknown command."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(visible(f"{args[0]} is not a command of {ctx.command_path}. {self.meant(ctx, args)}".rstrip()))
        return super().resolve_command(ctx, args)

    def meant(self, ctx: click.Context, args: list[str]) -> str:
        """What `args`, which begin with no command, may mean, in a sentence; empty if that is unknown."""
        close = difflib.get_close_matches(args[0].lower(), self.list_commands(ctx), n=1)
        return f"Did you mean {close[0]}?" if close else ""


class ReproCommand(_Helped):
    """A command whose errors become one sentence, an exit code, and JSON under `--json`."""

    def __init__(self, name: str | None, *, help: str | None = None, **kwargs: Any) -> None:
        super().__init__(name, help=unescaped(help), **kwargs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        write_options(self.get_params(ctx), ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note `--json` before parsing, so that a parsing error is printed as JSON too."""
        ctx.meta[_JSON] = "--json" in args
        with self._ending(ctx):
            _check_text(args)
            return super().parse_args(ctx, self.arranged(ctx, args))

    def arranged(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments in the order in which click should parse them."""
        return args

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error is printed and ends it."""
        with self._ending(ctx):
            return super().invoke(ctx)

    @contextmanager
    def _ending(self, ctx: click.Context) -> Iterator[None]:
        """Let every error in the block end the command."""
        try:
            yield
        except ReproKitError as error:
            self._end(ctx, str(error), error.exit_code, error.data)
        except KeyboardInterrupt:
            self._end(ctx, "interrupted", Exit.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            from repro_kit.session.system import sentence_of

            os_problem = sentence_of(error, Path())
            if os_problem:
                self._end(ctx, str(os_problem), os_problem.exit_code)
            if os.environ.get("REPRO_KIT_DEBUG"):
                echo(traceback.format_exc(), err=True)
            summary = " ".join(f"{type(error).__name__}: {error}".split())
            self._end(ctx, f"unexpected: {summary} (REPRO_KIT_DEBUG=1 shows the traceback)", Exit.FAILED)

    def error_data(self, message: str, exit_code: int) -> dict[str, Any]:
        """What `--json` prints when the command could not do its work."""
        return {"error": message, "exit": exit_code}

    def print_error(
        self, ctx: click.Context, message: str, exit_code: int, data: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Print `error_data`, with more `data`, if `--json` is on."""
        if ctx.meta.get(_JSON):
            echo_json({**self.error_data(message, exit_code), **data})

    def _end(
        self, ctx: click.Context, message: str, exit_code: Exit, data: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        echo(message, err=True, label="error:")
        self.print_error(ctx, message, exit_code, data)
        ctx.exit(exit_code)


def command(
    name: str, group: click.Group | None = None, *, cls: type[click.Command] = ReproCommand, **settings: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function, which takes the context, the command `name` (of `group`), with the options that it declares."""

    def decorate(function: Callable[..., Any]) -> Any:
        decorated = with_options(f"{group.name} {name}" if group else name, click.pass_context(function))
        return (group.command if group else click.command)(name, cls=cls, **settings)(decorated)

    return decorate


class CaseCommand(ReproCommand):
    """A command that works on a case. Its JSON always has all fields of `CaseSummary`."""

    def error_data(self, message: str, exit_code: int) -> dict[str, Any]:
        """A `CaseSummary` without results."""
        from repro_kit.pipeline.summary import CaseSummary

        return CaseSummary(Exit(exit_code), error=message).as_json()


class SubjectCommand(CaseCommand):
    """A command that takes ``SCRIPT [ARGS]…``, ``-m MODULE [ARGS]…`` or ``-- COMMAND…`` after its own options."""

    def __init__(self, name: str | None, *, own: Sequence[str] | None = None, **kwargs: Any) -> None:
        """`own`: the headings of the options that its help explains; those of the others are collect's. None: all."""
        super().__init__(name, **kwargs)
        self.own = own

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its own options; those that it shares with collect in a few lines."""
        if self.own is None:
            super().format_options(ctx, formatter)
        else:
            write_own_options(self.get_params(ctx), self.own, ctx, formatter)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The three forms of the command line."""
        return ["[OPTIONS]", "SCRIPT [ARGS]... | -m MODULE [ARGS]... | -- COMMAND..."]

    def arranged(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let click parse our own options only; the subject and its arguments stay as they are."""
        options, form, subject = self.split(args)
        ctx.meta[_FORM] = form
        ctx.meta[_JSON] = "--json" in options
        return [*options, "--", *subject] if subject else options

    def split(self, args: Sequence[str]) -> tuple[list[str], str, list[str]]:
        """Our options, the form of the subject, and the subject's own words."""
        flags = {name for param in self.params if _is_flag(param) for name in (*param.opts, *param.secondary_opts)}
        flags |= {"-h", "--help"}
        at = 0
        while at < len(args):
            word = args[at]
            if word == "--":
                return list(args[:at]), "command", list(args[at + 1 :])
            if word == "-m":
                return list(args[:at]), "module", list(args[at + 1 :])
            if not word.startswith("-") or word == "-":
                return list(args[:at]), "script", list(args[at:])
            joined = "=" in word or (not word.startswith("--") and len(word) > 2)
            at += 1 if word in flags or joined else 2
        return list(args), "script", []


def _check_text(args: Sequence[str]) -> None:
    """Raise ReproKitError for text that no file of a case can hold: NUL characters, and text that is not UTF-8."""
    try:
        here = str(Path.cwd())
    except OSError as error:
        raise UsageError(f"The current directory cannot be used: {error.strerror}; go to another one.") from error
    for word, subject in ((here, "The current directory"), *((word, "The argument") for word in args)):
        wrong = "has a NUL character" if "\0" in word else "" if _is_utf8(word) else "is not valid UTF-8"
        if wrong:
            raise UsageError(f"{subject} {word!r} {wrong}; rename it.")


def _is_utf8(word: str) -> bool:
    try:
        return bool(word.encode()) or not word
    except UnicodeEncodeError:
        return False


def unescaped(text: str | None) -> str | None:
    r"""`text` with click's mark for "do not wrap" (a backspace), which raw docstrings write as ``\b``."""
    return text.replace("\\b\n", "\b\n") if text else text


def form_of(ctx: click.Context) -> Any:
    """The form of the subject on the command line: `script`, `module` or `command`."""
    return ctx.meta.get(_FORM, "script")


def _is_flag(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and (param.is_flag or param.count)
