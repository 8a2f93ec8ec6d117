"""The options of a run of the pipeline, one class for each stage. Times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class RunOptions:
    """Limits of one run of the user's command."""

    timeout: float = 600.0


@dataclass(frozen=True)
class QueryOptions:
    """Limits of the runs of captured programs."""

    query_timeout: float | None = None  # of one run; None: from what was measured
    jobs: int = 1  # parallel runs, of programs and, in the ablation, of the user's command


@dataclass(frozen=True)
class SymptomOptions:
    """What counts as the failure if nothing raises, and whether rounding counts."""

    treat_rounding_as: str = "rounding"  # "failure": go on with a difference that eager's own rounding explains
    check: str | None = None  # symptom to look for (model/measure/symptom.py): "accuracy", "recompiles>3", …
    oracle: str | None = None  # a command that runs the subject itself; exit status 0 means good
    oracle_matches: str | None = None  # regular expression for the output of a bad run


@dataclass(frozen=True)
class ObserveOptions(SymptomOptions, RunOptions):
    """What is run, which failure is looked for, and what else is collected."""

    failure: int = 0  # which of the observed failures
    logs: str | None = None  # further TORCH_LOGS
    debug_artifacts: bool = False
    function: str | None = None  # TORCHDYNAMO_DEBUG_FUNCTION
    patient: bool = False  # wait until the time limit, also where a compile seems never to end


@dataclass(frozen=True)
class CaptureOptions(QueryOptions, RunOptions):
    """How the graphs are recorded and tested."""

    check: str | None = None  # as in `SymptomOptions`; the message names it if no graph shows the symptom
    treat_rounding_as: str = "rounding"  # as in `SymptomOptions`


@dataclass(frozen=True)
class AblateOptions(QueryOptions, RunOptions):
    """The cells of the ablation, and the steps after them."""

    preset: str = "standard"  # "quick", "standard", "full"
    backends: tuple[str, ...] = ()  # in addition to torch's own and the subject's
    axes: tuple[str, ...] = ()  # more settings to vary, "NAME=VALUE,VALUE"
    cross: bool = False  # all combinations of the axes
    stop_early: bool = False  # no more cells once the layer is known
    repeat: int = 1  # runs of a cell that does not fail
    on: str = "auto"  # run the cells on: "program", "script", "both"; "auto": a reduced script, program or script
    workarounds: bool = False  # try workarounds on the script, and measure what they cost
    narrow: str | None = None  # narrowing steps, "graph,subsystem"; "": none; "auto": all; None: the cheap ones


@dataclass(frozen=True)
class MinifyOptions(QueryOptions, RunOptions):
    """The limits of a reduction, and the graph it reduces."""

    budget: int = 2000  # most queries of one reduction
    deadline: float | None = None  # most seconds of one reduction; None: from how it fails
    border: str = "dynamo"  # the graph that is reduced: "dynamo" (torch level), "aot" (aten), "auto" (the smaller one)
    source: bool = False  # reduce the script itself, also where a graph fails alike
    events: str | None = None  # file for the events of a reduction, as JSON lines


@dataclass(frozen=True)
class BundleOptions:
    """The contents of the bundle, and its path."""

    include_values: bool = False
    include_source: bool = False  # the user's own source files, where `repro.py` runs them
    trace: str | None = None  # trace, artifacts and logs in the bundle: "yes", "no", "redacted"; None: no
    dry_run: bool = False  # list the contents of the bundle, and write nothing
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

    def with_(self, **values: Any) -> Options:
        """A copy with `values` in every part that has the option. Raises TypeError for a name that no part has."""
        unknown = values.keys() - self.flat().keys()
        if unknown:
            raise TypeError(f"There is no option {', '.join(sorted(unknown))}.")

        def changed(part: Any) -> Any:
            return replace(part, **{name: value for name, value in values.items() if name in vars(part)})

        return Options(**{part.name: changed(self.of(part.name)) for part in fields(self)})
