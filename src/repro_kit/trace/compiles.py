"""The compiles in a trace, and how each ended; a failed one apart from the control flow that looks like a failure."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from repro_kit.model.failure import tracebacks
from repro_kit.model.failure.failure import Frame
from repro_kit.trace.record import Record

#: Exceptions by which Dynamo starts over or leaves a frame alone.
_CONTROL_FLOW = re.compile(r"(?:SkipFrame|RestartAnalysis|SkipCodeRecursive\w*|StepUnsupported)$")
#: Exceptions that are an error only under ``fullgraph=True``; else the frame, or the rest of it, runs in eager.
_SOFT = ("Unsupported", "UserError", "RecompileLimitExceeded", "CacheLimitExceeded")
#: What is kept of the metrics of a compile: a log may hold thousands, each with all settings.
_KEPT = (
    "fail_type", "fail_reason", "fail_user_frame_filename", "fail_user_frame_lineno", "co_name", "has_guarded_code"
)  # fmt: skip
_LIMIT = re.compile(r"(?:recompile|cache_size)_?\s?limit (?:exceeded|reached)")


class CompileOutcome(StrEnum):
    """How a compile ended."""

    OK = "ok"
    FAILED = "failed"
    EAGER = "eager"  # left to eager: a graph break that skips the frame, the recompile limit, nothing to compile
    OPEN = "open"  # began, and nothing more is known


@dataclass(frozen=True)
class CompileFailure:
    """A compile that failed, whether or not the program noticed.

    `type` is the exception's name (``InductorError``), `text` its traceback, or ``TYPE: REASON`` where torch wrote none
    (a compile of the backward). `soft`: a graph break that ``fullgraph=True`` made an error.
    """

    compile_id: str
    rank: int | None
    type: str
    reason: str
    text: str
    soft: bool = False
    backward: bool = False
    log: str = ""  # name of the log that tells of it
    where: Frame | None = None  # the user's line, where torch names one


@dataclass(frozen=True)
class Compile:
    """One compile id and its outcome."""

    compile_id: str
    rank: int | None
    outcome: CompileOutcome
    log: str = ""


@dataclass
class _Seen:
    """What the trace says about one compile id of one process."""

    log: str
    compile_id: str
    rank: int | None
    error: str = ""  # dynamo_error: the traceback
    breaks: int = 0  # graph breaks: there are none under fullgraph=True
    forward: dict[str, Any] | None = None  # compilation_metrics
    backward: list[dict[str, Any]] = field(default_factory=list)

    def failures(self) -> list[CompileFailure]:
        """The failures among its forward and backward compiles."""
        found = []
        metrics = self.forward or {}
        if self.error or metrics.get("fail_type"):
            forward = self._failure(metrics, self.error, backward=False)
            found = [forward] if self._counts(forward) else []
        failed = [metrics for metrics in self.backward if metrics.get("fail_type")]
        return found + [self._failure(metrics, "", backward=True) for metrics in failed]

    def _failure(self, metrics: dict[str, Any], error: str, *, backward: bool) -> CompileFailure:
        name, reason = str(metrics.get("fail_type") or ""), str(metrics.get("fail_reason") or "")
        if error and not name:
            chains = tracebacks.chains(error)
            name, reason = (chains[-1][0].type, chains[-1][0].message) if chains else ("", error.strip())
        name = tracebacks.short(name)
        text = error or f"{name}: {reason}"
        where = _user_line(metrics)
        return CompileFailure(self.compile_id, self.rank, name, reason, text, name in _SOFT, backward, self.log, where)

    def _counts(self, failure: CompileFailure) -> bool:
        """Whether a failed forward compile is a failure: not when Dynamo went on in eager by design.

        A soft error is none after a graph break was allowed, nor is the recompile limit, which shows in the metrics
        only. (Under ``fullgraph=True`` there is no graph break record, and the limit is a `FailOnRecompileLimitHit`.)
        """
        if _CONTROL_FLOW.search(failure.type):
            return False
        return not (failure.soft and (self.breaks or not self.error or _LIMIT.search(failure.reason)))

    def outcome(self) -> CompileOutcome:
        """How it ended, the backward included."""
        if self.failures():
            return CompileOutcome.FAILED
        if self.forward is None:
            return CompileOutcome.EAGER if self.error else CompileOutcome.OPEN
        return CompileOutcome.OK if self.forward.get("has_guarded_code") else CompileOutcome.EAGER


def _user_line(metrics: dict[str, Any]) -> Frame | None:
    file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
    return Frame(str(file), line, str(metrics.get("co_name") or "")) if file and isinstance(line, int) else None


@dataclass
class Compiles:
    """All compiles, in the order in which they began."""

    seen: dict[tuple[str, int | None, str], _Seen] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Note a beginning, an end, an error or a graph break."""
        compile_id = record.compile_id
        if record.event.endswith("compilation_metrics"):
            compile_id = record.text("compile_id") or compile_id
        if compile_id is None:
            return
        one = self.seen.setdefault((record.file, record.rank, compile_id), _Seen(record.file, compile_id, record.rank))
        if record.event == "compilation_metrics":
            one.forward = {key: record.fields.get(key) for key in _KEPT}
        elif record.event == "bwd_compilation_metrics":
            one.backward.append({key: record.fields.get(key) for key in _KEPT})
        elif record.name == "dynamo_error":
            one.error = sys.intern(record.payload or "")  # one error of many compiles is kept once
        elif record.name == "dynamo_graph_break_reason":
            one.breaks += 1

    def all(self) -> list[Compile]:
        """Every compile id with its outcome."""
        return [Compile(one.compile_id, one.rank, one.outcome(), one.log) for one in self.seen.values()]

    def failures(self) -> list[CompileFailure]:
        """Every compile that failed."""
        return [failure for one in self.seen.values() for failure in one.failures()]
