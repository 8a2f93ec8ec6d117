"""The options that most commands share: the output, the case, the interpreter, the time limit of a run."""

# No `from __future__ import annotations`: `options_of` reads the types.
from dataclasses import dataclass
from functools import partial

from repro_kit.options.declare import PROJECT, PROJECT_PATH, REMOVES, USER_ANSWERS, USER_RUNS, option
from repro_kit.session.options import RunOptions

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
