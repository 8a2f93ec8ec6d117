"""What the user may set for a run of the pipeline: one part for each stage. Times in seconds."""

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

    query_timeout: float = 120.0  # of one run
    jobs: int = 1  # runs at the same time; the ablation runs the user's command as often, too


@dataclass(frozen=True)
class SymptomOptions:
    """What counts as the failure where nothing raises."""

    check: str | None = None  # symptom to look for (model/measure/symptom.py): "accuracy", "recompiles>3", …
    oracle: str | None = None  # a command that tells good (exit status 0) from bad; it runs the subject itself
    oracle_matches: str | None = None  # regular expression for the output of a bad run


@dataclass(frozen=True)
class ObserveOptions(SymptomOptions, RunOptions):
    """What is run and looked for, and what is collected beside it."""

    failure: int = 0  # which of the observed failures
    logs: str | None = None  # further TORCH_LOGS
    debug_artifacts: bool = False
    function: str | None = None  # TORCHDYNAMO_DEBUG_FUNCTION
    patient: bool = False  # wait until the time limit, also where a compile seems never to end


@dataclass(frozen=True)
class CaptureOptions(QueryOptions, RunOptions):
    """How the graphs are recorded and tried."""

    check: str | None = None  # as in `SymptomOptions`; named where no graph shows it


@dataclass(frozen=True)
class AblateOptions(QueryOptions, RunOptions):
    """Which cells there are, and what comes after them."""

    preset: str = "standard"  # "quick", "standard", "full"
    backends: tuple[str, ...] = ()  # beside torch's own and the subject's
    axes: tuple[str, ...] = ()  # further things to vary, "NAME=VALUE,VALUE"
    cross: bool = False  # all combinations of the axes
    stop_early: bool = False  # no further cells once the layer is known
    repeat: int = 1  # runs of a cell that does not fail
    on: str = "auto"  # what the cells are run on: "program", "script", "both", "auto" (the program where there is one)
    workarounds: bool = False  # try what makes the script work, and measure what that costs
    narrow: str | None = None  # steps of narrowing, "graph,subsystem"; "": none; "auto": all; None: the cheap ones


@dataclass(frozen=True)
class MinifyOptions(QueryOptions, RunOptions):
    """When a reduction ends, and what it reduces."""

    budget: int = 2000  # queries of one reduction
    deadline: float = 1800.0  # seconds of one reduction
    border: str = "dynamo"  # graph that is reduced: "dynamo" (torch level), "aot" (aten), "auto" (the smaller one)
    events: str | None = None  # file that gets a reduction's events as JSON lines


@dataclass(frozen=True)
class BundleOptions:
    """What the bundle shows, and where it goes."""

    include_values: bool = False
    trace: str | None = None  # put trace, artifacts and logs in the bundle: "yes", "no", "redacted"; None: ask
    dry_run: bool = False  # list what a bundle would hold, write none
    output: str | None = None


StageOptions = ObserveOptions | CaptureOptions | AblateOptions | MinifyOptions | BundleOptions


@dataclass(frozen=True)
class Options:
    """The parts of all stages, each under its stage's name. What several parts have is the same in all of them."""

    observe: ObserveOptions = ObserveOptions()
    capture: CaptureOptions = CaptureOptions()
    ablate: AblateOptions = AblateOptions()
    minify: MinifyOptions = MinifyOptions()
    bundle: BundleOptions = BundleOptions()

    def of(self, stage: str) -> StageOptions:
        """The part of stage `stage`."""
        part: StageOptions = getattr(self, stage)
        return part

    def flat(self) -> dict[str, Any]:
        """Every option by its name, as the command line and `options.json` have them."""
        return {name: value for part in fields(self) for name, value in vars(self.of(part.name)).items()}

    def with_(self, **values: Any) -> Options:
        """These, with each of `values` in every part that has it. Raises TypeError for a name that no part has."""
        unknown = values.keys() - self.flat().keys()
        if unknown:
            raise TypeError(f"There is no option {', '.join(sorted(unknown))}.")

        def changed(part: Any) -> Any:
            return replace(part, **{name: value for name, value in values.items() if name in vars(part)})

        return Options(**{part.name: changed(self.of(part.name)) for part in fields(self)})
