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

    json: bool = _output("--json", False, "Print the result as one JSON object on stdout.")
    quiet: bool = _output("-q --quiet", False, "Print only warnings and the result.")
    verbose: int = _output("-v --verbose", 0, "Print more details.", counted=True)


@dataclass(frozen=True)
class InterfaceOptions(OutputOptions):
    """Of commands that ask."""

    yes: bool = _output(
        "-y --yes", False, "Answer yes to every question. It puts none of your code into a bundle.", rule=USER_ANSWERS
    )


@dataclass(frozen=True)
class InterpreterOptions:
    """Where torch is."""

    python: str | None = _case(
        "--python",
        None,
        "Python interpreter that has torch.",
        metavar="PATH",
        shown="the active environment's",
        rule=USER_RUNS,
        agents=True,
    )


@dataclass(frozen=True)
class CaseOptions(InterpreterOptions):
    """The case that a command makes or continues."""

    output: str | None = _case(
        "-o --output",
        None,
        "Path of the case.",
        metavar="PATH",
        shown="./NAME.repro",
        rule=PROJECT_PATH,
        agents=True,
        more="The name of an archive (`x.repro.zip`, `x.repro.tar.gz`) also chooses its format.",
    )
    fresh: bool = _case("--fresh", False, "Remove the existing case, and start again.", rule=REMOVES, agents=True)


@dataclass(frozen=True)
class RunLimit:
    """The time limit of a run of something that is there already."""

    timeout: float | None = option(
        "--timeout",
        None,
        "Time limit of one run, in seconds.",
        metavar="S",
        shown=f"{RunOptions.timeout:g}",
        rule=PROJECT,
        agents=True,
    )
