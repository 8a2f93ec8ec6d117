"""click's options, made of the declarations of `repro_kit.options`, and how the help of a command shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from repro_kit.options.declare import Option

_MOST = 10**9  # seconds, runs, GiB: larger values would overflow a clock
#: Fewer options than this are one list.
_MANY = 14
_OTHERS = "Options"


def with_options(command: str, function: Callable[..., Any]) -> Any:
    """`function` with the options that `command` declares."""
    from repro_kit.options.commands import options_for  # the help of the group does without it

    for option in reversed(options_for(command)):
        function = _decorator(option)(function)
    return function


class DeclaredOption(click.Option):
    """An option made of its declaration."""

    def __init__(self, *args: Any, declared: Option, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.declared = declared


def _decorator(option: Option) -> Callable[[Any], Any]:
    settings: dict[str, Any] = {"help": option.text, "cls": DeclaredOption, "declared": option}
    if option.counted:
        settings["count"] = True
    elif option.kind is bool:
        settings |= {"is_flag": True, "default": option.initial}
    else:
        settings |= {"type": _click_type(option), "metavar": option.metavar, "multiple": option.many}
        if option.initial:
            settings["default"] = option.initial
    if option.check is not None:
        settings["callback"] = partial(_checked, option.check)
    return click.option(*option.flags, option.name, **settings)


def _checked(check: Callable[[Any], object], ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if value is not None:
        check(value)
    return value


def _click_type(option: Option) -> Any:
    if option.choices:
        return click.Choice(option.choices)
    numbers = {float: Positive(), int: Count(option.least), Path: click.Path(path_type=Path)}
    return numbers.get(option.kind)


class Positive(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions of click
    """A finite number above 0, at most 1e9. (click's own range prints its largest number in every help text.)"""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`value` as a number; the command ends with one sentence if it is none."""
        number: float = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number) or not 0 < number <= _MOST:
            self.fail(f"{value!r} is not a number above 0, and at most {_MOST}.", param, ctx)
        return number


class Count(click.ParamType):  # type: ignore[type-arg]
    """A whole number from `least` to 1e9."""

    name = "count"

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """`value` as a whole number; the command ends with one sentence if it is none."""
        number: int = click.INT.convert(value, param, ctx)
        if not self.least <= number <= _MOST:
            self.fail(f"{value!r} is not a whole number from {self.least} to {_MOST}.", param, ctx)
        return number


def write_options(params: Sequence[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command: those without a heading first, then those of each heading together."""
    options = [param for param in params if isinstance(param, click.Option)]
    options.sort(key=_shows_help)  # the last one of the last heading
    records = [(option, record) for option in options if (record := option.get_help_record(ctx)) is not None]
    sections: dict[str, list[tuple[str, str]]] = {_OTHERS: []}
    for option, record in records:
        heading = (_heading(option) if len(records) >= _MANY else "") or _OTHERS
        if _shows_help(option):
            heading = next(reversed(sections))
        sections.setdefault(heading, []).append(record)
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def write_own_options(
    params: Sequence[click.Parameter], own: Sequence[str], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options without a heading, and those below the headings `own`; of all others the names alone."""
    options = [param for param in params if isinstance(param, click.Option) and not param.hidden]
    mine = [option for option in options if _heading(option) in ("", *own)]
    mine.sort(key=lambda option: (_shows_help(option), bool(_heading(option))))
    records = [option.get_help_record(ctx) for option in mine]
    with formatter.section(_OTHERS):
        formatter.write_dl([record for record in records if record is not None])
    with formatter.section("As for collect (repro-kit collect --help)"):
        names = ", ".join("/".join(option.opts) for option in options if option not in mine)
        indent = " " * formatter.current_indent
        wrap = TextWrapper(formatter.width, indent, indent, break_on_hyphens=False)
        formatter.write(f"{wrap.fill(names)}\n")


def _heading(option: click.Option) -> str:
    return option.declared.heading if isinstance(option, DeclaredOption) else ""


def _shows_help(option: click.Option) -> bool:
    return "--help" in option.opts
