"""The options of a run of the pipeline, one class for each stage. Times are in seconds.

A command line that does not give one of them leaves the value that the case was made with: `initial` is None.
"""

# No `from __future__ import annotations`: `options_of` reads the types.
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from repro_kit.diagnosis.evidence import STEPS
from repro_kit.errors import UsageError
from repro_kit.failure.kinds import SYMPTOM_FORMS
from repro_kit.options.declare import PROJECT, RUNS, USER_SHOWS, WRITES, option

#: Headings of the options that are one stage's own.
RUN, FAILURE = "The run of the command (observe)", "The failure to look for"
REDUCTION, ABLATION = "The graph and its reduction (capture, minify)", "The ablation (ablate)"
BUNDLE = "The bundle (bundle)"
PRESETS = ("quick", "standard", "full")

_kept = partial(option, initial=None)
_run = partial(_kept, heading=RUN, rule=PROJECT)
_failure = partial(_kept, heading=FAILURE)
_reduction = partial(_kept, heading=REDUCTION)
_ablation = partial(_kept, heading=ABLATION)
_bundle = partial(_kept, heading=BUNDLE)


def _symptom(value: str) -> None:
    from repro_kit.failure.symptom import parse_symptom

    parse_symptom(value)


def _axes(values: tuple[str, ...]) -> None:
    from repro_kit.diagnosis.axes import parse_axis

    for axis in values:
        try:
            parse_axis(axis)
        except ValueError as error:
            raise UsageError(f"--axis: {error}") from error


def _steps(value: str) -> None:
    for name in filter(None, value.split(",")):
        if name not in (*STEPS[1:], "auto"):
            raise UsageError(f"--narrow knows no step {name!r}; it knows {', '.join(STEPS[1:])}.")


@dataclass(frozen=True)
class RunOptions:
    """Limits of one run of the user's command."""

    timeout: float = _run(
        "--timeout S",
        "Time limit of a run of the command, in seconds.",
        600.0,
        shown="600, less if stuck",
        agents=True,
        more="Without the option, a [compile that never ends](../explanation/stages.md#a-compile-that-never-ends) is "
        "ended before.",
    )


@dataclass(frozen=True)
class QueryOptions:
    """Limits of the runs of captured programs."""

    query_timeout: float | None = _reduction(
        "--query-timeout S",
        "Time limit of a run of a captured graph, in seconds.",
        shown="from what was measured",
        rule=PROJECT,
        more="The default is 30 s and ten times what the failure took before.",
    )
    jobs: int = _run("-j --jobs N", "Number of parallel runs.", 1, shown="cores")


@dataclass(frozen=True)
class SymptomOptions:
    """What counts as the failure if nothing raises, and whether rounding counts."""

    check: str | None = _failure(
        "--check SYMPTOM",
        f"Look for a symptom that raises no error: {SYMPTOM_FORMS}.",
        rule=PROJECT,
        agents=True,
        check=_symptom,
        more='See "Symptoms".',
    )
    treat_rounding_as: str = _failure(
        "--treat-rounding-as",
        "Treat a difference that rounding explains as no bug (exit 6), or as a failure.",
        "rounding",
        choices=("rounding", "failure"),
        more="See [Rounding](../explanation/wrong-results.md#rounding).",
    )


@dataclass(frozen=True)
class OracleOptions(SymptomOptions):
    """Also a judge of the user's own."""

    oracle: str | None = _failure(
        "--oracle CMD",
        "Command that runs the script and judges the run by exit status: 0 good, 125 skip, any other bad.",
        rule=RUNS,
        more='See "Symptoms".',
    )
    oracle_matches: str | None = _failure(
        "--oracle-matches REGEX", "Count a bad run only if its output matches REGEX; otherwise it is another failure."
    )


@dataclass(frozen=True)
class ObserveOptions(OracleOptions, RunOptions):
    """What is run, which failure is looked for, and what else is collected."""

    failure: int = _failure(
        "--failure N", "Which failure to take if there are several.", 0, shown="0, the first", least=0
    )
    logs: str | None = _run("--logs OPTIONS", "Collect these TORCH_LOGS in an extra run.")
    debug_artifacts: bool = _run("--debug-artifacts", "Collect the TORCH_COMPILE_DEBUG tree in an extra run.")
    function: str | None = _run(
        "--function NAME",
        "Collect Dynamo's bytecode and guards of NAME in an extra run.",
        more="As with `TORCHDYNAMO_DEBUG_FUNCTION`.",
    )
    patient: bool = False  # wait until the time limit, even if a compile seems never to end


@dataclass(frozen=True)
class CaptureOptions(SymptomOptions, QueryOptions, RunOptions):
    """How the graphs are recorded and tested. `check` is for the message if no graph shows the symptom."""


@dataclass(frozen=True)
class AblateOptions(QueryOptions, RunOptions):
    """The cells of the ablation, and the steps after them."""

    preset: str = _ablation(
        "--preset",
        "How many ways to compile to try.",
        "standard",
        choices=PRESETS,
        more="`quick`: the ladder. `standard`: also dynamic shapes (on a script, only for its own backend), and the "
        "modes that this torch has (`torch._inductor.list_mode_options`) if Inductor fails. `full`: all of these in "
        "any case, and `fullgraph`, grad mode, graph caches.",
    )
    backends: tuple[str, ...] = _ablation(
        "--backend NAME", "Also try this backend (may be repeated).", (), rule=RUNS, more="NAME as in torch."
    )
    axes: tuple[str, ...] = _ablation(
        "--axis NAME=V,V",
        "Also vary dynamic, mode, fullgraph, grad, caches, or a setting (may be repeated).",
        (),
        rule=RUNS,
        check=_axes,
        more="`backend` as well. A setting is one of torch (`inductor.pattern_matcher=True,False`; modules `inductor`, "
        "`dynamo`, `functorch`, `compiler`, `shapes`).",
    )
    cross: bool = _ablation("--cross", "Try all combinations of the axes.")
    on: str = _ablation(
        "--on",
        "Try them on the graph, the script, or both.",
        "auto",
        choices=("auto", "program", "script", "both"),
        shown="auto, the reduced script or the graph",
        more="`program`: the reduced graph, else the captured one. `both`: the deciding cells on both.",
    )
    repeat: int = _ablation(
        "--repeat N",
        "How often a way to compile must pass.",
        1,
        shown="by the failure rate",
        more="By default, the unchanged subject runs a few times, and its failure rate says how often a cell must "
        "pass; if only the final check of the bundle sees the failure pass, `collect` runs the cells again, up to 20 "
        "times each.",
    )
    workarounds: bool = _ablation(
        "--workarounds/--no-workarounds", "Try workarounds on the script, and measure what they cost.", shown="yes"
    )
    stop_early: bool = _ablation("--stop-early", "Stop once the layer is known.")
    narrow: str | None = option(  # "graph,subsystem"; "": none; "auto": all; None: the cheap ones
        "--narrow STEPS",
        f"Narrowing steps: {', '.join(STEPS[1:])}.",
        shown="those that take a few minutes at most",
        initial="auto",
        check=_steps,
        more="`flips`: settings that make the failure disappear. `needs`: your own settings that the failure needs. "
        "`collect` leaves out `flips`, stops after five minutes on a reduced subject, and leaves out steps of more "
        "than a minute on a whole one.",
    )


@dataclass(frozen=True)
class ReductionOptions(QueryOptions, RunOptions):
    """The limits of a reduction, and the graph it reduces."""

    budget: int = _reduction("--budget N", "Most tries of a reduction.", 2000, rule=PROJECT)
    deadline: float | None = _reduction(
        "--deadline S",
        "Time limit of a reduction, in seconds.",
        shown="1800 for a graph, 300 for a script; hangs: 150, 600",
        rule=PROJECT,
        more="By default, compile time that grows too fast gets 60 or more: each query of it and of a hang is slow. "
        "Ranks that wait for each other get the usual time.",
    )
    border: str = _reduction(
        "--border",
        "Graph to reduce: of torch operators (dynamo), of aten ones (aot), the smaller (auto).",
        "dynamo",
        choices=("dynamo", "aot", "auto"),
        rule=PROJECT,
        more="See below.",
    )
    events: str | None = _reduction(
        "--events FILE", "Append the events of a reduction to this file, as JSON lines.", rule=WRITES, more="See below."
    )


@dataclass(frozen=True)
class MinifyOptions(ReductionOptions):
    """Also what is reduced."""

    source: bool = _kept("--source", "Reduce the script itself, even if a graph of it fails in the same way.")


@dataclass(frozen=True)
class BundleOptions:
    """The contents of the bundle, and its path."""

    include_values: bool = _bundle(
        "--include-values", "Put tensor values and the values of command arguments into the bundle.", rule=USER_SHOWS
    )
    include_source: bool = _bundle(
        "--include-source",
        "Put your own source files into the bundle, if repro.py runs them.",
        rule=USER_SHOWS,
        more="`issue.md` quotes five lines around the failing one.",
    )
    trace: str | None = _bundle(
        "--trace",
        "Put trace, artifacts and logs into the bundle; redacted: the trace without code.",
        choices=("yes", "no", "redacted"),
        shown="no",
        rule=USER_SHOWS,
        more="Trace and logs hold model code.",
    )
    dry_run: bool = option(
        "--dry-run",
        "List the files of the bundle without writing them.",
        heading=BUNDLE,
        more="The list has sizes, reasons and redactions.",
    )
    output: str | None = None


StageOptions = ObserveOptions | CaptureOptions | AblateOptions | MinifyOptions | BundleOptions


@dataclass(frozen=True)
class Options:
    """The options of all stages, each under the name of its stage. An option of several stages has one value in all."""

    observe: ObserveOptions = ObserveOptions()
    capture: CaptureOptions = CaptureOptions()
    ablate: AblateOptions = AblateOptions()
    minify: MinifyOptions = MinifyOptions()
    bundle: BundleOptions = BundleOptions()

    def of(self, stage: str) -> StageOptions:
        """The options of stage `stage`."""
        part: StageOptions = getattr(self, stage)
        return part

    def flat(self) -> dict[str, Any]:
        """All options by name, as on the command line and in `options.json`."""
        return {name: value for part in fields(self) for name, value in vars(self.of(part.name)).items()}

    def with_(self, **values: Any) -> "Options":
        """A copy with `values` in every part that has the option. Raises TypeError for a name that no part has."""
        unknown = values.keys() - self.flat().keys()
        if unknown:
            raise TypeError(f"There is no option {', '.join(sorted(unknown))}.")

        def changed(part: Any) -> Any:
            return replace(part, **{name: value for name, value in values.items() if name in vars(part)})

        return Options(**{part.name: changed(self.of(part.name)) for part in fields(self)})
