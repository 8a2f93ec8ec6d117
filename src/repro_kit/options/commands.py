"""The options that most commands share, those of each command but the stages', and which command takes which."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from repro_kit.failure.kinds import SYMPTOM_FORMS
from repro_kit.options.declare import (
    PROJECT,
    PROJECT_PATH,
    REMOVES,
    RUNS,
    SENDS,
    USER_ANSWERS,
    USER_RUNS,
    WRITES,
    Option,
    Source,
    again,
    option,
    options_of,
)
from repro_kit.options.stages import (
    AblateOptions,
    BundleOptions,
    MinifyOptions,
    ObserveOptions,
    QueryOptions,
    ReductionOptions,
    RunOptions,
)

# No `from __future__ import annotations`: `options_of` reads the types.


_output = partial(option, heading="Answers and output")
_case = partial(option, heading="The case")


@dataclass(frozen=True)
class OutputOptions:
    """Of commands that ask nothing."""

    json: bool = _output("--json", "Print the result as one JSON object on stdout.")
    quiet: bool = _output("-q --quiet", "Print only warnings and the result.")
    verbose: int = _output("-v --verbose", "Print more details.", 0, counted=True)


@dataclass(frozen=True)
class InterfaceOptions(OutputOptions):
    """Of commands that ask."""

    yes: bool = _output(
        "-y --yes", "Answer yes to every question. It puts none of your code into a bundle.", rule=USER_ANSWERS
    )


@dataclass(frozen=True)
class InterpreterOptions:
    """Where torch is."""

    python: str | None = _case(
        "--python PATH",
        "Python interpreter that has torch.",
        shown="the active environment's",
        rule=USER_RUNS,
        agents=True,
    )


@dataclass(frozen=True)
class CaseOptions(InterpreterOptions):
    """The case that a command makes or continues."""

    output: str | None = _case(
        "-o --output PATH",
        "Path of the case.",
        shown="./NAME.repro",
        rule=PROJECT_PATH,
        agents=True,
        more="The name of an archive (`x.repro.zip`, `x.repro.tar.gz`) also chooses its format.",
    )
    fresh: bool = _case("--fresh", "Remove the existing case, and start again.", rule=REMOVES, agents=True)


@dataclass(frozen=True)
class RunLimit:
    """The time limit of a run of something that is there already."""

    timeout: float | None = option(
        "--timeout S", "Time limit of one run, in seconds.", shown=f"{RunOptions.timeout:g}", rule=PROJECT, agents=True
    )


# No `from __future__ import annotations`: `options_of` reads the types.


STAGES = ("observe", "capture", "minify", "ablate", "bundle")  # as in case/case.py, which takes longer to import
#: As in explain/sections and explain/compared, which take longer to import.
SECTIONS = (
    "advice", "failures", "breaks", "recompiles", "specializations", "shapes", "similar", "ranks", "kernels",
    "guards", "overview",
)  # fmt: skip
COMPARED = ("frames", "failures", "breaks", "specializations", "settings", "versions", "caches", "guards", "times")

_stages = partial(option, heading="The stages", choices=STAGES)


@dataclass(frozen=True)
class CollectOptions:
    """The stages of `collect`."""

    only: tuple[str, ...] = _stages("--only", "Run only this stage (may be repeated).", ())
    until: str | None = _stages("--until", "Stop after this stage.")
    skip: tuple[str, ...] = _stages("--skip", "Skip this stage (may be repeated).", (), agents=True)
    which: int | None = option("--which N", "Number of the program in a file or text that holds several.", agents=True)


@dataclass(frozen=True)
class MinifyCommandOptions:
    """What `minify` reads."""

    compile_id: str | None = option("--compile-id ID", "Graph of a trace to reduce.", shown="the one that fails first")
    which: int | None = again(CollectOptions, "which")
    history: bool = option("--history", "List the accepted steps of a finished reduction, and stop.")


@dataclass(frozen=True)
class AblateCommandOptions:
    """What `ablate` does with an ablation."""

    plan: bool = option(
        "--plan", "Show the ways to compile without trying them.", more="Also says about how long they take."
    )
    expect: tuple[str, ...] = option(
        "--expect KEY=VALUE",
        "Exit 1 unless this holds. KEY: layer, cause, fails, passes.",
        (),
        more="Such as `layer=inductor` and `fails=CELL`.",
    )
    against: str | None = option("--against FILE", "Compare with the ablation of this file, case or bundle.")
    markdown: bool = option("--markdown", "Print the ablation as Markdown, for an issue.")
    no_narrow: bool = option("--no-narrow", "Name the layer only.")


@dataclass(frozen=True)
class FilingOptions:
    """What the command does with the packed bundle."""

    open: bool = option("--open", "Print and open a link to a new issue with its text filled in.", rule=SENDS)
    gh: bool = option("--gh", "Show the issue, ask, and file it with GitHub's `gh`.", rule=SENDS)
    comment: str | None = option(
        "--comment N", "Write a comment on issue N of PyTorch instead; --gh sends it.", rule=SENDS
    )


@dataclass(frozen=True)
class ExplainOptions(CaseOptions, RunLimit):
    """What `explain` shows and writes."""

    output: str | None = again(
        CaseOptions, "output", help="Path of the case; with --artifact, directory of the artifacts.", shown=""
    )
    section: tuple[str, ...] = option(
        "--section NAME",
        f"Show details of one section (may be repeated): {', '.join(SECTIONS)}, all.",
        (),
        choices=tuple(dict.fromkeys((*SECTIONS, *COMPARED, "all"))),
    )
    try_: bool = option("--try", "Run the script again with each suggestion, and measure the effect.", rule=RUNS)
    against: Path | None = option("--against OTHER", "Compare with this log or case.")
    html: Path | None = option("--html FILE", "Write the whole explanation as one HTML page.", rule=WRITES)
    list_: bool = option("--list", "List the artifacts of the trace by kind.")
    kinds: tuple[str, ...] = option("--artifact KIND", "Write these artifacts (may be repeated).", (), rule=WRITES)
    ids: tuple[str, ...] = option("--compile-id ID", "Write artifacts of this compile (may be repeated).", ())
    perfetto: Path | None = option(
        "--perfetto FILE", "Write the phases of all compiles for ui.perfetto.dev.", rule=WRITES
    )
    tlparse: Path | None = option("--tlparse DIR", "Write tlparse's pages; tlparse must be installed.", rule=RUNS)


@dataclass(frozen=True)
class DemoOptions:
    """What `demo` does with its script."""

    run: bool = option("--run", "Collect its failure as well, which takes about a minute.", rule=RUNS)


def _symptoms(values: tuple[str, ...]) -> None:
    from repro_kit.failure.symptom import parse_symptom

    for value in values:
        parse_symptom(value)


@dataclass(frozen=True)
class CheckOptions(InterpreterOptions):
    """What `check` checks, what it knows already, and what it writes."""

    checks: tuple[str, ...] = option(
        "--check SYMPTOM",
        f"What is checked (may be repeated): {SYMPTOM_FORMS}.",
        (),
        shown="accuracy",
        check=_symptoms,
    )
    baseline: Path | None = option(
        "--baseline FILE",
        "The failures that are known; also the .json of a check elsewhere.",
        shown="repro-kit-baseline.toml, if it is there",
    )
    update_baseline: bool = option(
        "--update-baseline", "Write the failures of this run to the baseline, and take out the mended.", rule=WRITES
    )
    strict: bool = option("--strict", "Exit 1 for a mended failure, too: the baseline must be brought up to date.")
    reduce: bool = option("--reduce/--no-reduce", "Make a reduced repro of each new failure.", True, shown="yes")
    directory: Path = option(
        "-o --output DIR", "Directory for the cases of what fails.", Path("repro-kit-check"), rule=WRITES
    )
    junit: Path | None = option("--junit FILE", "Write JUnit's XML.", rule=WRITES)
    sarif: Path | None = option("--sarif FILE", "Write SARIF, for GitHub's code scanning.", rule=WRITES)
    timeout: float = again(RunOptions, "timeout", heading="")
    deadline: float = option("--deadline S", "Time limit of the reduction of one failure, in seconds.", 120.0)


_STAGE = (CaseOptions, RunOptions, ObserveOptions, QueryOptions, ReductionOptions)
#: The classes that declare the options of each command but those of `options.builds`, in the order of its help.
_COMMANDS: dict[str, tuple[type, ...]] = {
    "collect": (*_STAGE, BundleOptions, CollectOptions, InterfaceOptions),
    "demo": (InterpreterOptions, DemoOptions, OutputOptions),
    "show": (OutputOptions,),
    "check": (CheckOptions, InterfaceOptions),
    "explain": (ExplainOptions, InterfaceOptions),
    "observe": (*_STAGE, InterfaceOptions),
    "capture": (*_STAGE, InterfaceOptions),
    "minify": (*_STAGE, MinifyOptions, MinifyCommandOptions, InterfaceOptions),
    "ablate": (*_STAGE, AblateOptions, AblateCommandOptions, InterfaceOptions),
    "bundle": (*_STAGE, BundleOptions, FilingOptions, InterfaceOptions),
    "diff": (OutputOptions,),
    "env": (InterpreterOptions, OutputOptions),
}


def options_for(command: str) -> list[Option]:
    """The options of a command, in the order of its help."""
    return options_of(*(_COMMANDS.get(command) or _all_commands().get(command, ())))


def every_option() -> dict[str, Option]:
    """Every option by its long name. Of several with one name, a file may set the first one that says so."""
    found: dict[str, Option] = {}
    for each in (each for command in _all_commands() for each in options_for(command)):
        if each.long not in found or found[each.long].rule.source is Source.COMMAND:
            found[each.long] = each
    return found


def _all_commands() -> dict[str, tuple[type, ...]]:
    from repro_kit.options.builds import COMMANDS  # the help of most commands does without it

    return {**_COMMANDS, **COMMANDS}
