"""The compiles in a trace, and how each ended. Dynamo's control-flow exceptions are not failures."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from repro_kit.failure import tracebacks
from repro_kit.failure.failure import Frame
from repro_kit.trace.record import Record

#: Exceptions that Dynamo raises to restart an analysis or to skip a frame.
_CONTROL_FLOW = re.compile(r"(?:SkipFrame|RestartAnalysis|SkipCodeRecursive\w*|StepUnsupported)$")
#: Exceptions that are errors only under ``fullgraph=True``; otherwise the rest of the frame runs in eager.
_SOFT = ("Unsupported", "UserError", "RecompileLimitExceeded", "CacheLimitExceeded")
#: The metrics of a compile that are kept; a log may have thousands of compiles, each with all settings.
_KEPT = (
    "fail_type", "fail_reason", "fail_user_frame_filename", "fail_user_frame_lineno", "co_name", "has_guarded_code"
)  # fmt: skip
_LIMIT = re.compile(r"(?:recompile|cache_size)_?\s?limit (?:exceeded|reached)")


class CompileOutcome(StrEnum):
    """How a compile ended."""

    OK = "ok"
    FAILED = "failed"
    EAGER = "eager"  # left to eager: a graph break that skips the frame, the recompile limit, nothing to compile
    OPEN = "open"  # began, and has no recorded end


@dataclass(frozen=True)
class CompileFailure:
    """A compile that failed, whether or not the program noticed.

    `type` is the exception's name (``InductorError``). `text` is its traceback, or ``TYPE: REASON`` if torch wrote none
    (for a backward). `soft`: a graph break that is an error because of ``fullgraph=True``.
    """

    compile_id: str
    rank: int | None
    type: str
    reason: str
    text: str
    soft: bool = False
    backward: bool = False
    log: str = ""  # name of the log that records the failure
    epoch: int = 0  # which run of compile ids in that log
    where: Frame | None = None  # the user's line, if torch names one


@dataclass(frozen=True)
class Compile:
    """One compile id and its outcome."""

    compile_id: str
    rank: int | None
    outcome: CompileOutcome
    log: str = ""
    epoch: int = 0  # which run of compile ids in that log


@dataclass
class _Seen:
    """The records about one compile id of one process."""

    log: str
    compile_id: str
    rank: int | None
    epoch: int = 0
    error: str = ""  # dynamo_error: the traceback
    breaks: int = 0  # graph breaks: there are none under fullgraph=True
    forward: dict[str, Any] | None = None  # compilation_metrics
    backward: list[dict[str, Any]] = field(default_factory=list)

    def failures(self) -> list[CompileFailure]:
        """The failures among its forward and backward compiles."""
        failures = []
        metrics = self.forward or {}
        if self.error or metrics.get("fail_type"):
            forward = self._failure(metrics, self.error, backward=False)
            failures = [forward] if self._counts(forward) else []
        failed = [metrics for metrics in self.backward if metrics.get("fail_type")]
        return failures + [self._failure(metrics, "", backward=True) for metrics in failed]

    def _failure(self, metrics: dict[str, Any], error: str, *, backward: bool) -> CompileFailure:
        name, reason = str(metrics.get("fail_type") or ""), str(metrics.get("fail_reason") or "")
        if error and not name:
            chains = tracebacks.chains(error)
            name, reason = (chains[-1][0].type, chains[-1][0].message) if chains else ("", error.strip())
        name = tracebacks.short(name)
        text = error or f"{name}: {reason}"
        where = _user_line(metrics)
        soft = name in _SOFT
        return CompileFailure(
            self.compile_id, self.rank, name, reason, text, soft, backward, self.log, self.epoch, where
        )  # fmt: skip

    def _counts(self, failure: CompileFailure) -> bool:
        """Whether a failed forward compile is a real failure. It is not one when Dynamo continues in eager by design.

        A soft error does not count after an allowed graph break. The recompile limit, which is only in the metrics,
        does not count either. (Under ``fullgraph=True`` there is no graph break record, and the limit is a
        `FailOnRecompileLimitHit`.)
        """
        if _CONTROL_FLOW.search(failure.type):
            return False
        return not (failure.soft and (self.breaks or not self.error or _LIMIT.search(failure.reason)))

    def outcome(self) -> CompileOutcome:
        """How the compile ended, including its backward."""
        if self.failures():
            return CompileOutcome.FAILED
        if self.forward is None:
            return CompileOutcome.EAGER if self.error else CompileOutcome.OPEN
        guarded = self.forward.get("has_guarded_code")
        if (
            guarded is None
        ):  # torch 2.3 does not say so; a compile that did not fail has left code, or nothing to compile
            guarded = not self.forward.get("fail_type") and not self.error
        return CompileOutcome.OK if guarded else CompileOutcome.EAGER


def _user_line(metrics: dict[str, Any]) -> Frame | None:
    file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
    return Frame(str(file), line, str(metrics.get("co_name") or "")) if file and isinstance(line, int) else None


@dataclass
class Compiles:
    """All compiles, in the order in which they began."""

    seen: dict[tuple[str, int | None, int, str], _Seen] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Note a beginning, an end, an error or a graph break."""
        compile_id = record.compile_id
        if record.event.endswith("compilation_metrics"):
            compile_id = record.text("compile_id") or compile_id
        if compile_id is None:
            return
        key = record.file, record.rank, record.epoch, compile_id
        seen = self.seen.setdefault(key, _Seen(record.file, compile_id, record.rank, record.epoch))
        if record.event == "compilation_metrics":
            seen.forward = {key: record.fields.get(key) for key in _KEPT}
        elif record.event == "bwd_compilation_metrics":
            seen.backward.append({key: record.fields.get(key) for key in _KEPT})
        elif record.name == "dynamo_error":
            seen.error = sys.intern(record.payload or "")  # an error that many compiles share is stored once
        elif record.name == "dynamo_graph_break_reason":
            seen.breaks += 1

    def all(self) -> list[Compile]:
        """Every compile id with its outcome."""
        return [
            Compile(seen.compile_id, seen.rank, seen.outcome(), seen.log, seen.epoch) for seen in self.seen.values()
        ]

    def failures(self) -> list[CompileFailure]:
        """Every compile that failed."""
        return [failure for seen in self.seen.values() for failure in seen.failures()]
