"""The values of a command's options, from the command line and from files, and what is made of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from repro_kit.cli.common.base_command import echo
from repro_kit.cli.common.click_options import DeclaredOption
from repro_kit.errors import UsageError
from repro_kit.options.declare import Source, options_of
from repro_kit.options.stages import Options, OracleOptions

if TYPE_CHECKING:
    from repro_kit.builds.several import BuildChoice
    from repro_kit.cli.common.config_defaults import Default
    from repro_kit.ui import Ui

T = TypeVar("T")

_NOTED = "repro_kit.noted"  # in a context: the notes about files were printed
_DEFAULT = Options()


def merged(ctx: click.Context) -> dict[str, Any]:
    """The command's parameters. Files set those that the command line leaves open; notes say so, once."""
    from repro_kit.cli.common.config_defaults import read_defaults  # the help does without it

    values = dict(ctx.params)
    defaults = read_defaults(Path.cwd())
    notes = list(defaults.notes)
    for param in ctx.command.params:
        default = defaults.values.get(param.name or "")
        if default is None or not isinstance(param, DeclaredOption) or param.declared.rule.source is Source.COMMAND:
            continue
        if not is_given(ctx, default.name):
            values[default.name] = _fitting(ctx, param, default)
            notes += filter(None, [default.announcement])
    if not ctx.meta.setdefault(_NOTED, False):
        ctx.meta[_NOTED] = True
        for line in notes:
            echo(f"note: {line}", err=True)
    return values


def is_given(ctx: click.Context, name: str) -> bool:
    """Whether the command line gives an option."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _fitting(ctx: click.Context, param: click.Parameter, default: Default) -> Any:
    """The value of a default, checked as if it came from the command line."""
    try:
        return param.type_cast_value(ctx, default.value)
    except click.BadParameter as error:
        raise UsageError(f"{default.shown_path}: {default.key}: {error.message}") from error


def given(cls: type[T], values: Mapping[str, Any]) -> T:
    """The options that `cls` declares, as `values` has them; one that is not set has its default."""
    return cls(**{each.name: values[each.name] for each in options_of(cls) if values[each.name] is not None})


def make_options(values: dict[str, Any]) -> Options:
    """The options of the stages. An option that is not set has its default; `jobs` is the number of usable cores."""
    given = {name: value for name, value in values.items() if name in _DEFAULT.flat() and value is not None}
    if given.get("timeout") is not None:  # the user says how long to wait
        given["patient"] = True
    given.setdefault("jobs", len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    options = _DEFAULT.with_(**given)
    _check_oracle(options.observe)
    return options


def _check_oracle(options: OracleOptions) -> None:
    """Raise ReproKitError if the oracle options contradict each other."""
    if options.oracle is not None or options.oracle_matches is not None:
        from repro_kit.verdicts.user_oracle import user_oracle_of

        user_oracle_of(options)


def make_ui(values: dict[str, Any]) -> Ui:
    """The `Ui` for `--json`, `-q`, `-v` and `--yes`."""
    from repro_kit.ui import Ui

    return Ui(json=values["json"], quiet=values["quiet"], verbose=values["verbose"], yes=values.get("yes", False))


def build_choice(values: dict[str, Any]) -> BuildChoice:
    """The builds that `BuildOptions` choose. `--with` and `--offline` count if the command has them."""
    from repro_kit.builds.catalog import BuildSelection
    from repro_kit.builds.several import BuildChoice
    from repro_kit.runner.places import cache_home

    selection = BuildSelection(
        nightly=values["nightly"],
        index=values["index_url"],
        wheels=values["wheels"],
        packages=values.get("packages", ()),
        cache=(values["cache"] or cache_home()).absolute(),
        cache_limit=values["cache_size"],
        offline=values.get("offline", False),
    )
    words = tuple(word.strip() for given in values["on"] for word in given.split(",") if word.strip())
    return BuildChoice(words, values["releases"], values["package"], values["python"], selection)
