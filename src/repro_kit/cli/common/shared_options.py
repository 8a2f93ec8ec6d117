"""The options that commands share, and what they amount to: `Options` and `Ui`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from repro_kit.cli.common.config_defaults import Default, read_defaults, shown
from repro_kit.cli.common.echo import echo
from repro_kit.errors import UsageError
from repro_kit.model.ablation.axis import parse_axis
from repro_kit.session.options import Options, SymptomOptions

if TYPE_CHECKING:
    from repro_kit.ui import Ui

F = TypeVar("F", bound=Callable[..., Any])


class _Positive(click.FloatRange):
    """A number above 0; Python's ``nan`` and ``inf`` are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number that can be counted to.", param, ctx)
        return number


_MOST = 10**9  # seconds, runs, GiB: more than anybody waits for, and no more than a clock can count
POSITIVE = _Positive(min=0, min_open=True, max=_MOST)
_SAID = "repro_kit.said"  # in a context: what files set was told
COUNT = click.IntRange(min=1, max=_MOST)
_DEFAULT = Options()
PRESETS = ("quick", "standard", "full")  # as in stages/ablate/matrix.py, which takes longer to import


def _decorate(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def _checked_symptom(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        from repro_kit.model.measure.symptom import parse_symptom

        parse_symptom(value)
    return value


interface_options = _decorate(
    click.option("--json", "json", is_flag=True, help="Print the result as one JSON object on stdout."),
    click.option("-q", "--quiet", is_flag=True, help="Show warnings and the result only."),
    click.option("-v", "--verbose", count=True, help="Show more of what is done."),
    click.option("-y", "--yes", is_flag=True, help="Answer every question with yes."),
)

python_option = click.option(
    "--python", metavar="PATH", help="Interpreter that has torch.  [default: the active environment's]"
)

subject_options = _decorate(
    python_option,
    click.option("-o", "--output", metavar="PATH", help="Where the case goes.  [default: ./NAME.repro]"),
    click.option("--fresh", is_flag=True, help="Remove the case that is there, and start anew."),
)

stage_options = _decorate(
    click.option(
        "--timeout",
        type=POSITIVE,
        metavar="S",
        help=f"Seconds for a run of the command.  [{_DEFAULT.observe.timeout:g}]",
    ),
    click.option(
        "--query-timeout",
        type=POSITIVE,
        metavar="S",
        help=f"Seconds for a run of a captured program.  [{_DEFAULT.capture.query_timeout:g}]",
    ),
    click.option("-j", "--jobs", type=COUNT, metavar="N", help="Runs at the same time.  [default: cores]"),
    click.option(
        "--failure",
        type=click.IntRange(min=0, max=_MOST),
        metavar="N",
        help="Which of several failures; 0 is the first.",
    ),
    click.option(
        "--check",
        metavar="SYMPTOM",
        callback=_checked_symptom,
        help="Look for what raises nothing: accuracy, recompiles>N, graph-breaks>N, compile-time>S, slowdown>X, "
        "memory>X.",
    ),
    click.option(
        "--oracle", metavar="CMD", help="A command that runs it and tells: exit status 0 good, 125 skip, else bad."
    ),
    click.option("--oracle-matches", metavar="REGEX", help="Of a bad run the output matches this, or it is another."),
    click.option("--logs", metavar="OPTIONS", help="Collect these TORCH_LOGS in a further run."),
    click.option(
        "--debug-artifacts", is_flag=True, default=None, help="Collect the TORCH_COMPILE_DEBUG tree in a further run."
    ),
    click.option("--function", metavar="NAME", help="Dynamo's bytecode and guards of this function, in a further run."),
    click.option("--budget", type=COUNT, metavar="N", help=f"Queries of a reduction.  [{_DEFAULT.minify.budget}]"),
    click.option(
        "--deadline", type=POSITIVE, metavar="S", help=f"Seconds of a reduction.  [{_DEFAULT.minify.deadline:g}]"
    ),
    click.option(
        "--border",
        type=click.Choice(["dynamo", "aot", "auto"]),
        help="Graph to reduce: torch-level, aten, or the smaller of both.  [dynamo]",
    ),
    click.option("--events", metavar="FILE", help="Append a reduction's events to this file, as JSON lines."),
)

matrix_options = _decorate(
    click.option(
        "--preset", type=click.Choice(PRESETS), help=f"How many cells an ablation has.  [{_DEFAULT.ablate.preset}]"
    ),
    click.option(
        "--backend", "backends", multiple=True, metavar="NAME", help="Try this backend too (may be repeated)."
    ),
    click.option(
        "--axis",
        "axes",
        multiple=True,
        metavar="NAME=V,V",
        help="Vary this too: dynamic, mode, fullgraph, grad, caches, or a setting (may be repeated).",
    ),
    click.option("--cross", is_flag=True, default=None, help="Try all combinations of the axes, not one at a time."),
    click.option(
        "--on",
        type=click.Choice(["auto", "program", "script", "both"]),
        help="What the cells are run on: the captured graph as a program, the script, or both.  [auto: the program]",
    ),
    click.option("--repeat", type=COUNT, metavar="N", help="Runs of a cell that does not fail.  [1]"),
    click.option(
        "--workarounds/--no-workarounds",
        default=None,
        help="Try on the script what makes it work now, and measure what that costs.  [yes]",
    ),
    click.option("--stop-early", is_flag=True, default=None, help="Run no further cells once the layer is known."),
)

bundle_options = _decorate(
    click.option(
        "--include-values",
        is_flag=True,
        default=None,
        help="Put tensor values, and the values of the command's arguments, into the bundle.",
    ),
    click.option(
        "--trace",
        type=click.Choice(["yes", "no", "redacted"]),
        help="Put trace, artifacts and logs into the bundle, or the trace without code.  [default: ask]",
    ),
    click.option("--dry-run", is_flag=True, help="List the files of the bundle, and write none."),
)


def merged(ctx: click.Context) -> dict[str, Any]:
    """The command's parameters; what the command line leaves open comes from files, which the user is told once."""
    values = dict(ctx.params)
    defaults = read_defaults(Path.cwd())
    said = list(defaults.notes)
    for name, default in defaults.values.items():
        if name in values and ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            values[name] = _fitting(ctx, default)
            said += filter(None, [default.announcement])
    if not ctx.meta.setdefault(_SAID, False):
        ctx.meta[_SAID] = True
        for line in said:
            echo(f"note: {line}", err=True)
    return values


def _fitting(ctx: click.Context, default: Default) -> Any:
    """The value of a default, which must be one that the command line may give, too."""
    param = next(parameter for parameter in ctx.command.params if parameter.name == default.name)
    try:
        return param.type_cast_value(ctx, default.value)
    except click.BadParameter as error:
        raise UsageError(f"{shown(default.path)}: {default.key}: {error.message}") from error


def _check_oracle(values: dict[str, Any]) -> None:
    """Raise ReproKitError where what is said of an oracle cannot be."""
    if values.get("oracle") is None and values.get("oracle_matches") is None:
        return
    from repro_kit.session.verdicts.user_oracle import of_options

    of_options(
        SymptomOptions(check=values.get("check"), oracle=values["oracle"], oracle_matches=values["oracle_matches"])
    )


def make_options(values: dict[str, Any]) -> Options:
    """The stages' options; what is not set is at its default, `jobs` at the number of usable cores."""
    _check_axes(values.get("axes") or ())
    _check_oracle(values)
    given = {name: value for name, value in values.items() if name in _DEFAULT.flat() and value is not None}
    given.setdefault("jobs", len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    return _DEFAULT.with_(**given)


def make_ui(values: dict[str, Any]) -> Ui:
    """The terminal as `--json`, `-q`, `-v` and `--yes` want it."""
    from repro_kit.ui import Ui

    return Ui(json=values["json"], quiet=values["quiet"], verbose=values["verbose"], yes=values["yes"])


def _check_axes(axes: tuple[str, ...]) -> None:
    """Raise ReproKitError for an axis that cannot be."""
    for axis in axes:
        try:
            parse_axis(axis)
        except ValueError as error:
            raise UsageError(f"--axis: {error}") from error
