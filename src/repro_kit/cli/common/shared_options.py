"""Options that several commands share, and the `Options` and `Ui` made of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from repro_kit.cli.common.config_defaults import Default, read_defaults, shown
from repro_kit.cli.common.echo import echo
from repro_kit.cli.common.headed_option import headed
from repro_kit.cli.common.numbers import COUNT, INDEX, POSITIVE
from repro_kit.errors import UsageError
from repro_kit.model.ablation.axis import parse_axis
from repro_kit.model.failure.kinds import SYMPTOM_FORMS
from repro_kit.session.options import Options, SymptomOptions

if TYPE_CHECKING:
    from repro_kit.builds.several import BuildChoice
    from repro_kit.ui import Ui

F = TypeVar("F", bound=Callable[..., Any])


#: Headings of the options that are one stage's own.
RUN, FAILURE = "The run of the command (observe)", "The failure to look for"
REDUCTION, ABLATION, BUNDLE = (
    "The graph and its reduction (capture, minify)",
    "The ablation (ablate)",
    "The bundle (bundle)",
)
_CASE = headed("The case")
_RUN = headed(RUN)
_FAILURE = headed(FAILURE)
_REDUCTION = headed(REDUCTION)
_ABLATION = headed(ABLATION)
_BUNDLE = headed(BUNDLE)
_BUILDS = headed("Other builds of torch")
_OUTPUT = headed("Answers and output")
_NOTED = "repro_kit.noted"  # in a context: the notes about files were printed
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


#: Of commands that ask nothing.
output_options = _decorate(
    _OUTPUT("--json", "json", is_flag=True, help="Print the result as one JSON object on stdout."),
    _OUTPUT("-q", "--quiet", is_flag=True, help="Print only warnings and the result."),
    _OUTPUT("-v", "--verbose", count=True, help="Print more details."),
)

interface_options = _decorate(
    output_options,
    _OUTPUT(
        "-y",
        "--yes",
        is_flag=True,
        help="Answer yes to every question. It puts none of your code into a bundle.",
    ),
)

python_option = _CASE(
    "--python", metavar="PATH", help="Python interpreter that has torch.  [default: the active environment's]"
)

subject_options = _decorate(
    python_option,
    _CASE("-o", "--output", metavar="PATH", help="Path of the case.  [default: ./NAME.repro]"),
    _CASE("--fresh", is_flag=True, help="Remove the existing case, and start again."),
)

stage_options = _decorate(
    _RUN(
        "--timeout",
        type=POSITIVE,
        metavar="S",
        help=f"Time limit of a run of the command, in seconds.  [default: {_DEFAULT.observe.timeout:g}, less if stuck]",
    ),
    _RUN("-j", "--jobs", type=COUNT, metavar="N", help="Number of parallel runs.  [default: cores]"),
    _RUN("--logs", metavar="OPTIONS", help="Collect these TORCH_LOGS in an extra run."),
    _RUN("--debug-artifacts", is_flag=True, default=None, help="Collect the TORCH_COMPILE_DEBUG tree in an extra run."),
    _RUN("--function", metavar="NAME", help="Collect Dynamo's bytecode and guards of NAME in an extra run."),
    _FAILURE(
        "--failure",
        type=INDEX,
        metavar="N",
        help="Which failure to take if there are several.  [default: 0, the first]",
    ),
    _FAILURE(
        "--check",
        metavar="SYMPTOM",
        callback=_checked_symptom,
        help=f"Look for a symptom that raises no error: {SYMPTOM_FORMS}.",
    ),
    _FAILURE(
        "--treat-rounding-as",
        type=click.Choice(["rounding", "failure"]),
        help="Treat a difference that rounding explains as no bug (exit 6), or as a failure.  [default: rounding]",
    ),
    _FAILURE(
        "--oracle",
        metavar="CMD",
        help="Command that runs the script and judges the run by exit status: 0 good, 125 skip, any other bad.",
    ),
    _FAILURE(
        "--oracle-matches",
        metavar="REGEX",
        help="Count a bad run only if its output matches REGEX; otherwise it is another failure.",
    ),
    _REDUCTION(
        "--query-timeout",
        type=POSITIVE,
        metavar="S",
        help="Time limit of a run of a captured graph, in seconds.  [default: from what was measured]",
    ),
    _REDUCTION(
        "--budget", type=COUNT, metavar="N", help=f"Most tries of a reduction.  [default: {_DEFAULT.minify.budget}]"
    ),
    _REDUCTION(
        "--deadline",
        type=POSITIVE,
        metavar="S",
        help="Time limit of a reduction, in seconds.  [default: 1800 for a graph, 300 for a script; hangs: 150, 600]",
    ),
    _REDUCTION(
        "--border",
        type=click.Choice(["dynamo", "aot", "auto"]),
        help="Graph to reduce: of torch operators (dynamo), of aten ones (aot), the smaller (auto).  [default: dynamo]",
    ),
    _REDUCTION("--events", metavar="FILE", help="Append the events of a reduction to this file, as JSON lines."),
)

matrix_options = _decorate(
    _ABLATION(
        "--preset",
        type=click.Choice(PRESETS),
        help=f"How many ways to compile to try.  [default: {_DEFAULT.ablate.preset}]",
    ),
    _ABLATION("--backend", "backends", multiple=True, metavar="NAME", help="Also try this backend (may be repeated)."),
    _ABLATION(
        "--axis",
        "axes",
        multiple=True,
        metavar="NAME=V,V",
        help="Also vary dynamic, mode, fullgraph, grad, caches, or a setting (may be repeated).",
    ),
    _ABLATION("--cross", is_flag=True, default=None, help="Try all combinations of the axes."),
    _ABLATION(
        "--on",
        type=click.Choice(["auto", "program", "script", "both"]),
        help="Try them on the graph, the script, or both.  [default: auto, the reduced script or the graph]",
    ),
    _ABLATION(
        "--repeat",
        type=COUNT,
        metavar="N",
        help="How often a way to compile must pass.  [default: by the failure rate]",
    ),
    _ABLATION(
        "--workarounds/--no-workarounds",
        default=None,
        help="Try workarounds on the script, and measure what they cost.  [default: yes]",
    ),
    _ABLATION("--stop-early", is_flag=True, default=None, help="Stop once the layer is known."),
)

bundle_options = _decorate(
    _BUNDLE(
        "--include-values",
        is_flag=True,
        default=None,
        help="Put tensor values and the values of command arguments into the bundle.",
    ),
    _BUNDLE(
        "--include-source",
        is_flag=True,
        default=None,
        help="Put your own source files into the bundle, where repro.py runs them.",
    ),
    _BUNDLE(
        "--trace",
        type=click.Choice(["yes", "no", "redacted"]),
        help="Put trace, artifacts and logs into the bundle; redacted: the trace without code.  [default: no]",
    ),
    _BUNDLE("--dry-run", is_flag=True, help="List the files of the bundle without writing them."),
)


build_options = _decorate(
    _BUILDS(
        "--on",
        multiple=True,
        metavar="BUILDS",
        help="Run on these: versions, days or environments, with commas.",
    ),
    _BUILDS("--releases", metavar="RANGE", help="All releases of a range: 2.10: or 2.10:2.13."),
    _BUILDS("--index-url", metavar="URL", help="Builds of this index.  [default: releases on PyPI]"),
    _BUILDS("--wheels", type=click.Path(path_type=Path), metavar="DIR", help="Wheels in this directory."),
    _BUILDS("--package", default="torch", metavar="NAME", help="Package whose builds are run.  [default: torch]"),
    _BUILDS("--cache", type=click.Path(path_type=Path), metavar="DIR", help="Directory for downloaded wheels."),
    _BUILDS("--cache-size", type=POSITIVE, default=20.0, metavar="GIB", help="Size limit of the cache.  [default: 20]"),
)


def build_choice(values: dict[str, Any]) -> BuildChoice:
    """The builds that `build_options` choose. `--nightly`, `--with` and `--offline` count where a command has them."""
    from repro_kit.builds.catalog import BuildSelection
    from repro_kit.builds.several import BuildChoice
    from repro_kit.runner.places import cache_home

    selection = BuildSelection(
        nightly=values.get("nightly"),
        index=values["index_url"],
        wheels=values["wheels"],
        packages=values.get("packages", ()),
        cache=(values["cache"] or cache_home()).absolute(),
        cache_limit=values["cache_size"],
        offline=values.get("offline", False),
    )
    words = tuple(word.strip() for given in values["on"] for word in given.split(",") if word.strip())
    return BuildChoice(words, values["releases"], values["package"], values["python"], selection)


def merged(ctx: click.Context) -> dict[str, Any]:
    """The command's parameters. Files set those that the command line leaves open; the user is told once."""
    values = dict(ctx.params)
    defaults = read_defaults(Path.cwd())
    notes = list(defaults.notes)
    for name, default in defaults.values.items():
        if name in values and ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            values[name] = _fitting(ctx, default)
            notes += filter(None, [default.announcement])
    if not ctx.meta.setdefault(_NOTED, False):
        ctx.meta[_NOTED] = True
        for line in notes:
            echo(f"note: {line}", err=True)
    return values


def _fitting(ctx: click.Context, default: Default) -> Any:
    """The value of a default, checked as if it came from the command line."""
    param = next(parameter for parameter in ctx.command.params if parameter.name == default.name)
    try:
        return param.type_cast_value(ctx, default.value)
    except click.BadParameter as error:
        raise UsageError(f"{shown(default.path)}: {default.key}: {error.message}") from error


def _check_oracle(values: dict[str, Any]) -> None:
    """Raise ReproKitError if the oracle options contradict each other."""
    if values.get("oracle") is None and values.get("oracle_matches") is None:
        return
    from repro_kit.session.verdicts.user_oracle import of_options

    of_options(
        SymptomOptions(check=values.get("check"), oracle=values["oracle"], oracle_matches=values["oracle_matches"])
    )


def make_options(values: dict[str, Any]) -> Options:
    """The options of the stages. An option that is not set has its default; `jobs` is the number of usable cores."""
    _check_axes(values.get("axes") or ())
    _check_oracle(values)
    given = {name: value for name, value in values.items() if name in _DEFAULT.flat() and value is not None}
    if given.get("timeout") is not None:  # the user says how long to wait
        given["patient"] = True
    given.setdefault("jobs", len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    return _DEFAULT.with_(**given)


def make_ui(values: dict[str, Any]) -> Ui:
    """The `Ui` for `--json`, `-q`, `-v` and `--yes`."""
    from repro_kit.ui import Ui

    return Ui(json=values["json"], quiet=values["quiet"], verbose=values["verbose"], yes=values.get("yes", False))


def _check_axes(axes: tuple[str, ...]) -> None:
    """Raise ReproKitError for an axis that does not exist."""
    for axis in axes:
        try:
            parse_axis(axis)
        except ValueError as error:
            raise UsageError(f"--axis: {error}") from error
