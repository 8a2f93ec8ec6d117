"""Run programs until one fails like the subject, and see whether the script's own check depends on its graph."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import OBSERVATION, ObservedFailure
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature, Strength, failure_alike, outcome_of, signature_of
from repro_kit.options.stages import CaptureOptions
from repro_kit.probe.repro_probe.protocol.failure_data import RANDOM_NUMBERS
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.probe.repro_probe.protocol.recipe_data import ENTRIES
from repro_kit.session.oracles import fresh_oracle, fresh_timeout, open_oracle, query_timeout
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.subject import watched_recording
from repro_kit.subject.script_run import SubjectRun, run_overridden
from repro_kit.trace.record import frame_of
from repro_kit.ui import Ui
from repro_kit.verdicts import settle, symptoms
from repro_kit.verdicts.blame import as_wrong_result
from repro_kit.verdicts.eager_run import run_eager
from repro_kit.verdicts.settle import verdict_of

_PASSES, _ALIKE = RunOutcome.PASSES, RunOutcome.FAILS_ALIKE
_FAILS_WITHOUT = "the script's own check fails with all graphs in eager, too"
_ALIAS = "alias"  # the kind of difference
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


_MOST_ATTEMPTS = 200
_SECONDS = 900.0  # for all attempts together
_MOST_AFRESH = 6  # attempts that are repeated in fresh interpreters
#: Backends with which a fresh interpreter shows nothing new: an export always traces anew, eager compiles nothing.
_NOT_AFRESH = (*ENTRIES, "eager")


class GraphSearch:
    """Runs attempts until one fails like the subject."""

    def __init__(
        self, case: Case, options: CaptureOptions, ui: Ui, target: Signature | None, kind: Kind, inputs: Path
    ) -> None:
        self.case = case
        self.ui = ui
        self.target = target
        self.kind = kind
        self.inputs = inputs
        self.timeout = query_timeout(case, options, kind)
        self.options = options
        self.verdict = Verdict(Status.CANNOT_TELL)
        self.latest = self.verdict  # on the attempt before
        self.signature: Signature | None = None
        self.tried: list[Attempt] = []  # the failed attempts with Dynamo's graphs
        self.sharing: list[tuple[Attempt, Verdict]] = []  # the attempts whose results share other memory than eager's
        self.rounded: list[Attempt] = []  # the attempts that differ from eager by rounding alone
        self.done: set[tuple[int, int]] = set()  # graphs (process, number) of which no other form is tried
        self.fresh = False
        self.check = OwnCheck(case, options, ui)
        self.hopeless = ""  # why no graph can show the failure, once that is known
        self._ask_at = time.monotonic() + case.load(OBSERVATION).seconds

    def first(self, attempts: Iterator[Attempt | str]) -> tuple[Attempt | None, list[str]]:
        """The first attempt that fails like the subject, and why the attempts before it do not."""
        reasons: list[str] = []
        until = time.monotonic() + _SECONDS
        with open_oracle(self.case, self.options.jobs) as oracle:
            oracle.share(self.case.path / "observe" / "kernels")
            for count, attempt in enumerate(attempts):
                if count >= _MOST_ATTEMPTS or time.monotonic() > until:
                    reasons.append("there are more graphs than could be tried")
                    break
                if isinstance(attempt, str):
                    reasons.append(attempt)
                    continue
                graph = (attempt.graph.pid, attempt.graph.number)
                if graph in self.done:
                    continue
                if time.monotonic() > self._ask_at and self._is_hopeless(attempt):
                    break
                named = f"{attempt.graph.named} alone {attempt.how}".rstrip()
                self.ui.progress(f"trying {named}")
                (verdict,) = oracle.check([attempt.text], self.inputs, timeout=self.timeout)
                self.latest = verdict
                rounds = verdict.rounding or (verdict.failure is not None and verdict.failure.rounding)
                if rounds:
                    self.rounded.append(attempt)
                if self._accepts(verdict):
                    doubt = _undefined(verdict) or self.check.doubt(attempt)
                    if not doubt:
                        return attempt, reasons
                    self.verdict, self.signature = Verdict(Status.CANNOT_TELL), None
                    self.done.add(graph)
                    reasons.append(f"{named}: {doubt}")
                    continue
                if self._shares_otherwise(verdict, attempt):
                    self.sharing.append((attempt, verdict))
                if verdict.failure is not None and verdict.failure.kind.policy.hangs:
                    self.done.add(graph)  # other forms of the graph take as long
                may_fail_afresh = attempt.graph.code and attempt.recipe.backend not in _NOT_AFRESH
                if verdict.status is not Status.INVALID and may_fail_afresh and not rounds:
                    self.tried.append(attempt)
                reasons.append(f"{named}: {_verdict_words(verdict)}")
        return self._first_sharing(), reasons

    def _first_sharing(self) -> Attempt | None:
        """The first graph that shares other memory than eager, if the script's own check passes with it in eager."""
        for attempt, verdict in self.sharing:
            if not (_undefined(verdict) or self.check.doubt(attempt)) and verdict.failure is not None:
                self.verdict, self.signature = verdict, signature_of(verdict.failure)
                return attempt
        return None

    def first_afresh(self, reasons: list[str]) -> Attempt | None:
        """Repeat the first few attempts in fresh interpreters: only the first compilation of a process may fail.

        An attempt that only allows graph breaks compiles the same graph, and is not repeated.
        """
        attempts = ([it for it in self.tried if it.recipe.fullgraph] or self.tried)[:_MOST_AFRESH]
        if any(map(self._is_hopeless, attempts)):
            return None
        with fresh_oracle(self.case, self.options.jobs) as oracle:
            self.ui.progress("trying the graphs again, each in a fresh interpreter")
            limit = fresh_timeout(self.case, self.options, self.kind)
            verdicts = oracle.check([it.text for it in attempts], self.inputs, timeout=limit)
            for attempt, verdict in zip(attempts, verdicts, strict=True):
                if self._accepts(verdict) and not (_undefined(verdict) or self.check.doubt(attempt)):
                    self.fresh = True
                    return attempt
        reasons.append("no attempt fails alike in a fresh interpreter either")
        return None

    def _is_hopeless(self, attempt: Attempt) -> bool:
        """Whether the script's own check fails with all graphs in eager, too, so that no graph of Dynamo's explains it.

        The answer costs a run of the script. `first` asks once the search has taken as long as such a run: in all it
        takes at most twice the time of the better choice (the ski rental problem).
        """
        if not self.hopeless:
            self.hopeless = self.check.without_graphs(attempt)
        return bool(self.hopeless)

    def _shares_otherwise(self, verdict: Verdict, attempt: Attempt) -> bool:
        """Whether results of the graph share other memory than eager's, which the script's own check can show.

        What the script then writes to one tensor, it reads as a wrong value of another. No graph alone has that value.
        """
        difference = verdict.failure.difference if verdict.failure else None
        if difference is None or difference.kind != _ALIAS or _frame_of(attempt) is None:
            return False
        return self.check.failed_check() is not None and not watched_recording.is_watched(self.case.path)

    def _accepts(self, verdict: Verdict) -> bool:
        failure = failure_alike(verdict, self.target)
        if failure is None:
            return False
        signature = signature_of(failure)
        if self.target is None and signature.kind != self.kind:
            return False
        self.verdict, self.signature = replace(verdict, failure=failure), signature
        return True


def _undefined(verdict: Verdict) -> str:
    """Why a wrong result of a graph shows no bug, since eager alone may give another one; empty where it does."""
    failure = verdict.failure
    if failure is None or not failure.kind.policy.compared:
        return ""
    doubts = [doubt for doubt in failure.doubts or () if doubt != RANDOM_NUMBERS]
    return f"differs from eager only where its results are not defined ({'; '.join(doubts)})" if doubts else ""


def _verdict_words(verdict: Verdict) -> str:
    if verdict.failure is None:
        return f"{verdict.status}{' (' + verdict.note + ')' if verdict.note else ''}"
    word = {Status.INVALID: "cannot run in eager: ", Status.FAIL: "fails differently: "}.get(verdict.status, "")
    return word + signature_of(verdict.failure).summary()
