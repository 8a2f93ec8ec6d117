"""Run the forms of the recorded graphs, one after the other, until a form fails like the subject."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.handles import OBSERVATION
from repro_kit.model.failure.failure import Kind, Status, Verdict
from repro_kit.model.failure.signature import Signature, signature_of
from repro_kit.model.run_outcome import failure_alike
from repro_kit.probe.repro_probe.protocol.entries import ENTRIES
from repro_kit.session.options import CaptureOptions
from repro_kit.session.oracles import fresh_oracle, fresh_timeout, open_oracle, query_timeout
from repro_kit.stages.capture.own_check import OwnCheck
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.ui import Ui

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
                if verdict.rounding or (verdict.failure is not None and verdict.failure.rounding):
                    self.rounded.append(attempt)
                if self._accepts(verdict):
                    doubt = self.check.doubt(attempt)
                    if not doubt:
                        return attempt, reasons
                    self.verdict, self.signature = Verdict(Status.CANNOT_TELL), None
                    self.done.add(graph)
                    reasons.append(f"{named}: {doubt}")
                    continue
                if verdict.failure is not None and verdict.failure.kind.policy.hangs:
                    self.done.add(graph)  # other forms of the graph take as long
                may_fail_afresh = attempt.graph.code and attempt.recipe.backend not in _NOT_AFRESH
                if verdict.status is not Status.INVALID and may_fail_afresh:
                    self.tried.append(attempt)
                reasons.append(f"{named}: {_verdict_words(verdict)}")
        return None, reasons

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
                if self._accepts(verdict) and not self.check.doubt(attempt):
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

    def _accepts(self, verdict: Verdict) -> bool:
        failure = failure_alike(verdict, self.target)
        if failure is None:
            return False
        signature = signature_of(failure)
        if self.target is None and signature.kind != self.kind:
            return False
        self.verdict, self.signature = replace(verdict, failure=failure), signature
        return True


def _verdict_words(verdict: Verdict) -> str:
    if verdict.failure is None:
        return f"{verdict.status}{' (' + verdict.note + ')' if verdict.note else ''}"
    word = {Status.INVALID: "cannot run in eager: ", Status.FAIL: "fails differently: "}.get(verdict.status, "")
    return word + signature_of(verdict.failure).summary()
