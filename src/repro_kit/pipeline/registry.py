"""The stages of the pipeline: the code, the dependencies and the settings of each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from repro_kit.case.case import Case
from repro_kit.case.fingerprint import command_files
from repro_kit.model.failure.failure import Kind
from repro_kit.session.options import StageOptions
from repro_kit.session.script.subject_check import fails_in_eager, is_program_alone
from repro_kit.ui import Ui

#: Options that select the cells of the ablation.
MATRIX = ("preset", "backends", "axes", "cross", "stop_early", "repeat", "on", "narrow")


class StageModule(Protocol):
    """The interface of the module of a stage."""

    def run(self, case: Case, options: Any, ui: Ui) -> None:
        """Run the stage with its part of the options. Raises Stop or ReproKitError."""


@dataclass(frozen=True)
class Stage:
    """One stage: its module, the stages it depends on, and the options that shape its result."""

    name: str
    module: str
    needs: tuple[str, ...] = ()  # stages that must have run
    uses: tuple[str, ...] = ()  # stages whose results are used if there are any
    settings: tuple[str, ...] = ()  # fields of the stage's own options
    skippable: tuple[str, ...] = ()  # needed stages that may have had nothing to do
    pointless: Callable[[Case], str] = lambda case: ""  # why the stage has nothing to do; empty if it has work

    def load(self) -> StageModule:
        """Import the module of the stage."""
        module: StageModule = importlib.import_module(self.module)
        return module


def _of_the_script(case: Case) -> str:
    if fails_in_eager(case):
        return "the failure needs no compiled graph"
    signature = case.file.signature
    if signature is None or not signature.kind.policy.measured:
        return ""
    if signature.kind is Kind.ORACLE:
        return "the oracle judges runs of the script, not a graph of it"
    return f"{signature.kind} is measured on the script, not on a graph of it"


REGISTRY: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            "observe",
            "repro_kit.stages.observe.stage",
            settings=(
                *("timeout", "patient", "logs", "debug_artifacts", "function"),
                *("check", "oracle", "oracle_matches", "failure", "treat_rounding_as"),
            ),
        ),
        Stage(
            "capture",
            "repro_kit.stages.capture.stage",
            needs=("observe",),
            settings=("treat_rounding_as",),
            pointless=_of_the_script,
        ),
        Stage(
            "minify",
            "repro_kit.stages.minify.stage",
            needs=("observe", "capture"),
            settings=("budget", "deadline", "border", "source"),
            skippable=("capture",),
        ),
        Stage(
            "ablate",
            "repro_kit.stages.ablate.stage",
            needs=("observe",),
            uses=("capture", "minify"),
            settings=MATRIX,
        ),
        Stage(
            "bundle",
            "repro_kit.stages.bundle.stage",
            needs=("observe",),
            uses=("capture", "minify", "ablate"),
            settings=("include_values", "include_source", "trace", "output"),
        ),
    )
}


def prerequisites(name: str) -> list[str]:
    """The stages that must run before stage `name`, in order."""
    needed = {name}
    for stage in reversed(REGISTRY.values()):
        if stage.name in needed:
            needed.update(stage.needs)
    return [stage_name for stage_name in REGISTRY if stage_name in needed and stage_name != name]


def settings_of(stage: Stage, case: Case, options: StageOptions) -> str:
    """The options of the stage that differ from their defaults, and the state of the files of the user's command."""
    if not stage.needs and (case.has("watched.json") or is_program_alone(case)):
        return ""  # a run that another process recorded cannot be repeated, and a program from a file was not observed
    default = type(options)()
    changed = [
        f"{name}={getattr(options, name)}"
        for name in stage.settings
        if getattr(options, name) != getattr(default, name)
    ]
    if not stage.needs:
        changed += command_files(case)
    return " ".join(changed)
