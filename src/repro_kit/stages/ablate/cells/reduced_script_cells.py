"""Cells on the script that the reduction made of the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import cast

from repro_kit.case.case import Case
from repro_kit.case.handles import SOURCE_FAILURE, SOURCE_REDUCTION
from repro_kit.files import read_text
from repro_kit.model.failure.failure import SLOW
from repro_kit.model.torchrun import launch_of
from repro_kit.probe.repro_probe.protocol.orders import Override, ProbeOptions
from repro_kit.probe.repro_probe.protocol.queries import ScriptOrder
from repro_kit.runner.launch import Run
from repro_kit.session.options import AblateOptions
from repro_kit.session.oracles import open_oracle
from repro_kit.session.script.script_run import run_overridden
from repro_kit.session.verdicts import eager_run
from repro_kit.stages.ablate.cells.script_cells import OnScript
from repro_kit.ui import Ui

#: What the probe can change in a process that has imported torch already, and that writes nothing at its end.
_IN_A_FORK = {"backend", "mode", "dynamic", "fullgraph", "config", "defaults", "setup", "eager", "measure"}


def reduced_script(case: Case) -> Path | None:
    """The reduced script of the case, if it was seen to fail alike in a fresh interpreter and needs torch only.

    A script of several ranks is left to its launcher.
    """
    subject = case.file.subject
    launch = launch_of(subject.argv) if subject.form == "command" else None
    if launch is not None and launch.ranks > 1:
        return None
    reduction = case.current(SOURCE_REDUCTION)
    signature = case.file.signature
    if reduction is None or not (reduction.verified and reduction.self_contained) or not case.holds(SOURCE_FAILURE):
        return None
    slow = signature is None or signature.kind in SLOW
    return None if slow else (case.path / SOURCE_REDUCTION.name).parent / "best.py"


class OnReducedScript(OnScript):
    """Cells on the reduced script: in forks of a process that has imported torch, where a fork shows the same."""

    def __init__(self, case: Case, options: AblateOptions, ui: Ui, script: Path, *, infer: bool = False) -> None:
        self.script, self.text = script.absolute(), read_text(script)
        self._one_at_a_time = Lock()
        super().__init__(case, replace(options, jobs=1), ui, infer=infer)

    def usual(self) -> float:
        """The time of a start of an interpreter with torch, which is most of a cell."""
        return min(super().usual(), 3.0)

    def _texts(self) -> list[str]:
        return [self.text]

    def about(self) -> list[object]:
        """The text of the reduced script, and everything that a cell on the user's script depends on."""
        return [self.text, *super().about()]

    def _ended(
        self, directory: Path, changed: Override, timeout: float, env: Mapping[str, str], without: Sequence[str]
    ) -> Run:
        forks = {name for name, value in changed.items() if value} <= _IN_A_FORK
        if forks and not without and env in ({}, eager_run.VARIABLES):
            return self._forked(directory, changed, timeout, env)
        return run_overridden(
            self.case,
            directory,
            changed,
            why="",
            timeout=timeout,
            env=env,
            without=without,
            on_tick=self._tick,
            argv=[self.case.file.subject.python, str(self.script)],
        )

    def _forked(self, directory: Path, changed: Override, timeout: float, env: Mapping[str, str]) -> Run:
        directory.mkdir(parents=True, exist_ok=True)
        with self._one_at_a_time, open_oracle(self.case, self.options.jobs) as oracle:
            order: ScriptOrder = {
                "text": self.text,
                "directory": str(directory.absolute()),
                "mode": "override",
                "options": cast(ProbeOptions, changed),
                "env": dict(env),
                "recording": None,
                "ranks": 1,
            }
            (end,) = oracle.run_scripts([order], timeout=timeout)
        return end.run
