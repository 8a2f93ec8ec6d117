"""Whether the script's own check depends on a graph that differs from eager, as runs of the script show.

A graph may give a wrong value that nobody looks at, while the check fails for another reason, or in eager too.
"""

from __future__ import annotations

import shutil

from repro_kit.case.case import Case
from repro_kit.case.handles import OBSERVATION
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.model.failure.failure import Kind
from repro_kit.model.failure.signature import Strength
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.probe.repro_probe.protocol.entries import ENTRIES
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.session.options import CaptureOptions
from repro_kit.session.script import watched_recording
from repro_kit.session.script.script_run import SubjectRun, run_overridden
from repro_kit.session.verdicts import settle, symptoms
from repro_kit.session.verdicts.blame import as_wrong_result
from repro_kit.session.verdicts.eager_run import run_eager
from repro_kit.session.verdicts.script_verdict import verdict_of
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.trace.record import frame_of
from repro_kit.ui import Ui

_PASSES, _ALIKE = RunOutcome.PASSES, RunOutcome.FAILS_ALIKE
_FAILS_WITHOUT = "the script's own check fails with all graphs in eager, too"
_DIFFERS_WITHOUT = "the script's calls differ from eager with all graphs in eager, too"


class OwnCheck:
    """Tells whether the failed check of the script depends on a graph."""

    def __init__(self, case: Case, options: CaptureOptions, ui: Ui) -> None:
        self.sentence = ""  # how the check was seen to depend on the graph that was asked about last
        self._case, self._options, self._ui = case, options, ui
        self._answers: dict[str, RunOutcome] = {}  # of runs, by the graphs in eager

    def doubt(self, attempt: Attempt) -> str:
        """Why the check does not seem to depend on the graph of `attempt`; "" if it does, or nothing was checked.

        Raises Stop if the script fails in eager too.
        """
        failure = self.failed_check()
        if failure is None:
            return ""
        if watched_recording.is_watched(self._case.path):
            self.sentence = "Whether the program's own check depends on that graph is unknown: it does not run again."
            return ""
        if self._case.load(OBSERVATION).users_cache:
            return "differs from eager, but the script passes without the user's compiler cache"
        frame = _frame_of(attempt)
        if frame is None:
            return self._passes_in_eager()
        return self._depends_on(failure, frame, f"graph {attempt.graph.compile_id}")

    def without_graphs(self, attempt: Attempt) -> str:
        """That the script fails with all graphs in eager, too, so that the failure depends on none of them; "" if
        it passes then, or if that is not known: nothing was checked, or `attempt` has no graph of Dynamo's.
        """
        own = self.failed_check()
        failure = own or self._compared()
        if failure is None or _frame_of(attempt) is None or watched_recording.is_watched(self._case.path):
            return ""
        question = "does its check pass" if own else "do its calls agree with eager"
        if self._ends(failure, ">=0", f"{question} with all graphs in eager?") is not _ALIKE:
            return ""
        return _FAILS_WITHOUT if own else _DIFFERS_WITHOUT

    def _compared(self) -> ObservedFailure | None:
        """The failure of the case, if repro-kit found it by comparing the script's calls with eager."""
        observation, at = self._case.load(OBSERVATION), self._case.file.failure_index
        chosen = next(iter(observation.failures[at:]), None)
        measured = chosen is not None and chosen.source == "measured" and chosen.failure.kind.policy.compared
        return chosen if measured else None

    def failed_check(self) -> ObservedFailure | None:
        """The failure of the case, if the script's own check found it: by an exception, or by its exit status."""
        observation, at = self._case.load(OBSERVATION), self._case.file.failure_index
        if at >= len(observation.failures):
            return None
        chosen = as_wrong_result(observation.failures[at])
        is_own = chosen.failure.kind is Kind.ACCURACY and chosen.source in ("exception", "output", "exit")
        return chosen if is_own else None

    def _passes_in_eager(self) -> str:
        self._ui.progress("running the program without torch.compile")
        timeout, directory = self._options.timeout, self._case.path / "observe" / "eager"
        if "eager" not in self._answers:
            passes = run_eager(self._case, directory, timeout).passes
            self._answers["eager"] = _PASSES if passes else RunOutcome.FAILS_OTHERWISE
        if self._answers["eager"] is not _PASSES:
            settle.by_runs(self._case, timeout, self._ui)
        self.sentence = "The script passes in eager."
        return ""

    def _depends_on(self, failure: ObservedFailure, frame: int, named: str) -> str:
        if self._ends(failure, str(frame), f"does its check pass with {named} in eager?") is _PASSES:
            self.sentence = "With that graph in eager, and all others compiled, the script's own check passes."
            return ""
        # The graph may be one of several at fault. Dynamo traces the script even if all graphs run in eager.
        if self._ends(failure, ">=0", "does its check pass with all graphs in eager?") is not _PASSES:
            settle.by_runs(self._case, self._options.timeout, self._ui)
            return f"differs from eager, but {_FAILS_WITHOUT}"
        others = f"0-{frame - 1},>{frame}" if frame else ">0"
        if self._ends(failure, others, f"does its check fail with only {named} compiled?") is _ALIKE:
            self.sentence = "With all graphs in eager the script's own check passes; with all but that one it fails."
            return ""
        return "differs from eager, but the script's own check does not depend on it"

    def _ends(self, failure: ObservedFailure, in_eager: str, question: str) -> RunOutcome:
        """How the script ends with the graphs `in_eager` in eager; it is run once for each set of graphs."""
        if in_eager not in self._answers:
            self._answers[in_eager] = self.ending(failure, in_eager, question)
        return self._answers[in_eager]

    def ending(self, failure: ObservedFailure, in_eager: str, why: str) -> RunOutcome:
        """Run the script with some graphs in eager."""
        self._ui.progress(f"running the script: {why}")
        directory = self._case.path / "observe" / "own-check"
        shutil.rmtree(directory, ignore_errors=True)
        override: Override = {"eager_graphs": in_eager}
        symptom = symptoms.case_symptom(self._case) if failure.source == "measured" else None
        if symptom is not None:
            override["measure"] = symptoms.probes(symptom)
        ended = run_overridden(self._case, SubjectRun(directory, why=why, timeout=self._options.timeout), override)
        verdict = verdict_of(directory, ended, symptom, failure.signature, passes_in_eager=True)
        return outcome_of(verdict, failure.signature, Strength.REBASED)


def _frame_of(attempt: Attempt) -> int | None:
    """The number of the frame of `attempt`'s graph; None if it has no graph of Dynamo's, which alone could run in
    eager.
    """
    return None if attempt.recipe.backend in ENTRIES else frame_of(attempt.graph.compile_id)
