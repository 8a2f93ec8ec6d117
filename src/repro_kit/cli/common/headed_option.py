"""Options under headings in the help of a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import TextWrapper
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

#: Fewer options than this are one list.
_MANY = 14
_OTHERS = "Options"


class HeadedOption(click.Option):
    """An option that stands under `heading` where the help of its command has many options."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


def headed(heading: str) -> Callable[..., Callable[[F], F]]:
    """``click.option`` for options under `heading`."""
    return partial(click.option, cls=HeadedOption, heading=heading)


def write_options(params: Sequence[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command: those without a heading first, then those of each heading together."""
    options = [param for param in params if isinstance(param, click.Option)]
    options.sort(key=_shows_help)  # the last one of the last heading
    records = [(option, record) for option in options if (record := option.get_help_record(ctx)) is not None]
    sections: dict[str, list[tuple[str, str]]] = {_OTHERS: []}
    for option, record in records:
        heading = option.heading if isinstance(option, HeadedOption) and len(records) >= _MANY else _OTHERS
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
    mine = [option for option in options if not isinstance(option, HeadedOption) or option.heading in own]
    mine.sort(key=lambda option: (_shows_help(option), isinstance(option, HeadedOption)))
    records = [option.get_help_record(ctx) for option in mine]
    with formatter.section(_OTHERS):
        formatter.write_dl([record for record in records if record is not None])
    with formatter.section("As for collect (repro-kit collect --help)"):
        names = ", ".join("/".join(option.opts) for option in options if option not in mine)
        indent = " " * formatter.current_indent
        wrap = TextWrapper(formatter.width, indent, indent, break_on_hyphens=False)
        formatter.write(f"{wrap.fill(names)}\n")


def _shows_help(option: click.Option) -> bool:
    return "--help" in option.opts
