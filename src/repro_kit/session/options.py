"""What the user may set for a run of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Options of all stages; the command line and files of settings fill it. Times in seconds."""

    timeout: float = 600.0  # for one run of the user's command
    query_timeout: float = 120.0  # for one run of a captured program
    jobs: int = 1
    budget: int = 2000  # queries of one reduction
    deadline: float = 1800.0  # seconds of one reduction
    preset: str = "standard"  # of the ablation: "quick", "standard", "full"
    backends: tuple[str, ...] = ()  # of the ablation, beside torch's own and the subject's
    axes: tuple[str, ...] = ()  # further things to vary, "NAME=VALUE,VALUE"
    cross: bool = False  # all combinations of the axes
    stop_early: bool = False  # no further cells once the layer is known
    repeat: int = 1  # runs of a cell that does not fail
    on: str = "auto"  # what the cells are run on: "program", "script", "auto" (the program where there is one)
    workarounds: bool = False  # the ablation tries what makes the script work, and measures what that costs
    border: str = "dynamo"  # graph that is reduced: "dynamo" (torch level), "aot" (aten), "auto" (the smaller one)
    events: str | None = None  # file that gets a reduction's events as JSON lines
    failure: int = 0  # which of the observed failures
    check: str | None = None  # symptom to look for (model/measure/symptom.py): "accuracy", "recompiles>3", …
    oracle: str | None = None  # a command that tells good (exit status 0) from bad; it runs the subject itself
    oracle_matches: str | None = None  # regular expression for the output of a bad one
    logs: str | None = None  # further TORCH_LOGS
    debug_artifacts: bool = False
    function: str | None = None  # TORCHDYNAMO_DEBUG_FUNCTION
    narrow: str | None = None  # steps of narrowing, "graph,subsystem"; "": none; "auto": all; None: the cheap ones
    include_values: bool = False
    trace: str | None = None  # put trace, artifacts and logs in the bundle: "yes", "no", "redacted"; None: ask
    dry_run: bool = False  # list what a bundle would hold, write none
    yes: bool = False
    output: str | None = None
