"""Try suggestions: run the user's script again with each one applied from outside, and measure the effect."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case, note_start
from repro_kit.errors import StageError
from repro_kit.explain.extra_run import MeasuredRun, first_specialization, log_about, variables
from repro_kit.explain.suggestion import Aim, AppliedChange, Suggestion
from repro_kit.explain.trials import Ruling, Trial, Tried, change_of, combined, judge, measured
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.read_findings import read_calls, read_findings
from repro_kit.runner.subject_start import command, private_caches, probe_environment
from repro_kit.runner.supervised import exit_name, launch
from repro_kit.subject.script_run import SubjectRun, run_subject
from repro_kit.trace.insights import Insights, gather
from repro_kit.trace.insights.specializations import Specialization
from repro_kit.ui import Ui

_MOST = 8  # suggestions that are tried one by one
_LARGEST_OUTPUT = 1 << 20  # bytes of stdout that are compared
_JOB = "TORCH_COMPILE_JOB_ID"


def try_all(suggestions: Sequence[Suggestion], insights: Insights, case: Case, timeout: float, ui: Ui) -> Tried:
    """Try every suggestion; helpful ones come first in the result, and the best combination before them.

    A suggestion that cannot be applied from outside stays untried, and so do all after the first few.
    Raises ReproKitError if the script cannot be run.
    """
    chosen = [suggestion for suggestion in suggestions if suggestion.change][:_MOST]
    runs = _Runs(case, timeout, ui, planned=2 + len(chosen))
    cold, warm = runs.cold_and_warm()
    trials = [judge((suggestion,), cold, runs.one(suggestion), warm) for suggestion in chosen]
    if cold.recompiles:
        trials.append(judge((_keep_profile(),), cold, warm, None))
    helpful = [
        trial for trial in trials if trial.ruling is Ruling.HELPS and _JOB not in change_of(trial.suggestions).env
    ]
    trials += combined(helpful, lambda together: judge(together, cold, runs.together(together), warm))
    left = [suggestion for suggestion in suggestions if suggestion not in chosen]
    late = f"untried: only the first {_MOST} suggestions are tried"
    trials += [
        Trial((suggestion,), Ruling.UNTRIED, late if suggestion.change else why_untried(suggestion))
        for suggestion in left
    ]
    first = first_specialization(insights)
    further = runs.further(first) if first else ""
    return Tried(cold.bare(), warm.bare(), tuple(sorted(trials, key=_order)), further)


def why_untried(suggestion: Suggestion) -> str:
    """Why the effect of `suggestion` is unknown."""
    return f"untried: {suggestion.untried}" if suggestion.change is None else "untried"


def _keep_profile() -> Suggestion:
    return Suggestion(
        "Let torch keep what it learns about sizes from one run to the next",
        "a second run starts with the sizes that the first run found to be dynamic",
        "recompiles",
        Aim.RECOMPILES,
        AppliedChange(env={_JOB: "NAME-OF-THE-JOB"}),
        note="give each workload a name of its own; it stays in the compiler's cache directory",
    )


def _order(trial: Trial) -> tuple[int, tuple[int, ...]]:
    return list(Ruling).index(trial.ruling), trial.score


class _Runs:
    """Measured runs of the script under the probe, with empty caches unless stated otherwise."""

    def __init__(self, case: Case, timeout: float, ui: Ui, planned: int) -> None:
        self.case, self.timeout, self.ui, self.planned = case, timeout, ui, planned
        self.done = 0

    def cold_and_warm(self) -> tuple[MeasuredRun, MeasuredRun]:
        """The unchanged script, with empty caches and then with the caches of that run."""
        named = {_JOB: os.environ.get(_JOB, "repro-kit-explain")}
        with private_caches(self.case.file.subject.python) as caches:
            cold = self._measured(AppliedChange(), {**caches, **named}, "as it is")
            warm = self._measured(AppliedChange(), {**caches, **named}, "as it is, with warm caches")
        return cold, warm

    def one(self, suggestion: Suggestion) -> MeasuredRun:
        """A run with one suggestion applied."""
        return self.run(suggestion.change or AppliedChange(), suggestion.what)

    def together(self, suggestions: tuple[Suggestion, ...]) -> MeasuredRun:
        """A run with several suggestions applied."""
        return self.run(change_of(suggestions), f"{len(suggestions)} together")

    def run(self, change: AppliedChange, label: str) -> MeasuredRun:
        """A run with `change` applied, with empty caches."""
        with private_caches(self.case.file.subject.python) as caches:
            return self._measured(change, caches, label)

    def further(self, specialization: Specialization) -> str:
        """What torch logs about `specialization` when more logging is on."""
        directory = self.case.path / "explain" / "further"
        directory.mkdir(parents=True, exist_ok=True)
        log = directory / "dynamic.txt"
        log.unlink(missing_ok=True)
        self.ui.progress(f"an extra run, about {', '.join(specialization.sources)}")
        why = "explain: torch's log of a dynamic size"
        env = variables(specialization, os.environ, str(log.absolute()))
        run_subject(self.case, SubjectRun(directory, why=why, timeout=self.timeout, env=env))
        return log_about(log.read_text(encoding="utf-8", errors="replace"), specialization) if log.exists() else ""

    def _measured(self, change: AppliedChange, env: Mapping[str, str], label: str) -> MeasuredRun:
        self.done += 1
        directory = self.case.path / "explain" / "trials" / f"{self.done:02d}"
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "trace").mkdir(parents=True)
        self.ui.progress(f"run {self.done} of {max(self.planned, self.done)}: {label}")
        full = {
            **os.environ,
            **env,
            **change.environment(os.environ),
            "TORCH_TRACE": str((directory / "trace").absolute()),
        }
        override: Override = {"timeline": 0, **change.override()}
        note_start(self.case, f"explain: {label}")
        ran = launch(
            command(self.case.file.subject),
            cwd=Path(self.case.file.subject.cwd),
            env=probe_environment(full, "override", directory / "probe", self.timeout, override),
            timeout=self.timeout,
            stdout=directory / "stdout.txt",
            stderr=directory / "stderr.txt",
        )
        if not any((directory / "trace").iterdir()) and change == AppliedChange():
            raise StageError(f"Nothing was compiled in the run ({exit_name(ran)}), so nothing can be tried.")
        problems = read_findings(directory / "probe").problems
        if problems:
            last = problems[0].strip().rpartition("\n")[2]
            raise StageError(f"The probe had a problem, so nothing can be tried: {last}.")
        insights = gather(directory / "trace")
        shutil.rmtree(directory / "trace")  # large, and only the numbers are needed
        with (directory / "stdout.txt").open(encoding="utf-8", errors="replace") as file:
            printed = file.read(_LARGEST_OUTPUT)
        measurements = measured(insights, exit_name(ran), ran.seconds, read_calls(directory / "probe"), printed)
        return replace(measurements, place=str(directory))
