"""The signature of a failure, which stays the same while a program shrinks, and the outcome of a run against it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any

from repro_kit.failure import tracebacks
from repro_kit.failure.failure import STATE, Difference, ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.frames import compiling_part, innermost_torch, main_torch, recurring_torch
from repro_kit.failure.kinds import Kind, ShownBy
from repro_kit.failure.messages import asserted, fault_line, is_kernel, is_late, normalise, same_message, same_op
from repro_kit.failure.tracebacks import is_final, short, unwrap
from repro_kit.probe.repro_probe.protocol.failure_data import KINDS_OF_DIFFERENCE

#: Share of the original's difference that a candidate must keep; both are capped at 1 (a relative error of 100 %).
#: A smaller difference may be rounding rather than the bug.
KEPT_MAGNITUDE = 0.1
#: Share of words that two messages must have in common; see `normalise.same_message`.
LIKENESS = 0.75
LIKENESS_ACROSS_VERSIONS = 0.6
#: How scripts end that found a wrong result. What else a script raises only with torch.compile may be of any origin.
_CHECKS = ("AssertionError", "SystemExit", "ValueError", "Exception")
#: Share of the smaller set of frames that two hangs, or two endless recursions, must have in common: either is
#: interrupted anywhere in its loop.
LOOP_OVERLAP = 0.5

_LONGEST_SAID = 160  # characters of an exception in a sentence
MEMORY = "memory"  # the class of signals that end a program with damaged memory
_COMPILING = "compiling"
_MEMORY_SIGNALS = ("SIGSEGV", "SIGBUS")
_FRAMES = 3
#: What a warning that the script turns into an error was for earlier versions.
_EARLIER_OF_WARNINGS = (Kind.RUNTIME_ERROR, Kind.COMPILE_ERROR, Kind.DYNAMO_ERROR)
_RECURSION = "RecursionError"
_WORD = re.compile(r"[^\W\d_]{3,}")
_NUMBER = re.compile(r"(?<!\w)#(?!\w)")  # what `normalise` puts in place of a separate number


class Strength(StrEnum):
    """How much of two signatures must agree.

    `STRICT` (between candidates of one search) compares all fields, and of the frames the innermost. `REBASED` (after a
    change of subject or backend, e.g. from script to program) ignores what such a change alters: wrapper exceptions,
    the size of a difference, and whether a wrong value is NaN. `CROSS_VERSION` (another version of torch) ignores
    frames as well.
    """

    STRICT = "strict"
    REBASED = "rebased"
    CROSS_VERSION = "cross-version"


@dataclass(frozen=True)
class Signature:
    """Normalised facts about a failure: no addresses, numbers, paths or generated names."""

    kind: Kind
    exceptions: tuple[str, ...] = ()  # type names, outermost first
    message: str = ""  # of the root cause, or the first `error:` line of a native compiler; normalised
    frames: tuple[str, ...] = ()  # innermost frames inside torch, "file.py:function", innermost first
    signal: str | None = None  # class of signal: "memory" or "SIGABRT", "SIGFPE", …
    op: str | None = None
    difference: str | None = None  # kind of difference
    magnitude: float = 0.0  # of the difference: max_rel, capped at 1; see `KEPT_MAGNITUDE`
    rounding: bool = False  # a difference that eager's own rounding explains counts as this failure too
    places: tuple[str, ...] = ()  # of the differences of this kind: outputs, gradients, arguments; empty: not known
    doubts: tuple[str, ...] | None = None  # why the results are not defined; None: not known
    worse: tuple[str, ...] = ()  # worse kinds of difference that the same run shows

    @classmethod
    def upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """`data` of an earlier version, for which a deadlock was a time-out with this message."""
        if data.get("message") != "the ranks wait for each other":
            return data
        return {**data, "kind": Kind.DEADLOCK, "message": ""}

    def matches(self, other: Signature, strength: Strength = Strength.STRICT) -> bool:
        """Whether `other` is the same failure as this one, at the given strength. This signature is the original's."""
        if self.kind is not other.kind:
            return strength is not Strength.STRICT and self._matches_other_kind(other, strength)
        if strength is Strength.STRICT and self.new_doubts(other):
            return False
        if self.kind.policy.any_alike:
            return True
        match self.kind.policy.shown_by:
            case ShownBy.VALUE | ShownBy.WAIT:  # both are above their limit, or they would be no failures
                return True
            case ShownBy.DIFFERENCE:
                return self._same_difference(other, strength)
            case ShownBy.SIGNAL:
                return self._same_crash(other, strength)
            case ShownBy.STACK:
                return strength is Strength.CROSS_VERSION or self._same_place(other, strength)
            case ShownBy.EXCEPTION:
                # Of a bisection, which looks for any exception that is lost, no exception is known.
                any_lost = self.kind.policy.eager_raises and not self.exceptions
                return any_lost or self._same_exception(other, strength)

    def new_doubts(self, other: Signature) -> tuple[str, ...]:
        """Why the results of `other` are less defined than those of this failure; empty if they are not."""
        if self.doubts is None or other.doubts is None:
            return ()
        return tuple(doubt for doubt in other.doubts if doubt not in self.doubts)

    def is_lost_by(self, other: Signature) -> bool:
        """Whether this exception, which ended a run, is the one that `other` says the compiled program has lost."""
        # An `assert` reads as a check of the script's own, which is a wrong result until its place is known.
        if not other.kind.policy.eager_raises or self.kind not in (Kind.RUNTIME_ERROR, Kind.ACCURACY):
            return False
        raised = self.exceptions[-1:]
        return bool(raised) and raised == other.exceptions[-1:] and other._same_message(self, LIKENESS)

    @property
    def is_compiling(self) -> bool:
        """Whether the run hangs while something is compiled."""
        return self.kind is Kind.TIMEOUT and self.message.startswith(_COMPILING)

    def summary(self) -> str:
        """One line for people: ``InductorError: AssertionError in cpp.py:store``."""
        location = f" in {self.frames[0]}" if self.frames else ""
        policy = self.kind.policy
        if policy.shown_by is ShownBy.VALUE:
            return _cut(self.message)
        if self.kind is Kind.ACCURACY:
            return self._difference_summary()
        if policy.summary:
            signal = "memory corruption or invalid access" if self.signal == MEMORY else (self.signal or "a signal")
            raised = "".join(self.exceptions[-1:]) or "an exception"
            head = policy.summary.format(location=location, signal=signal, raised=raised)
            return head if policy.hangs else _cut(f"{head}{_after(': ', self.message)}")
        names = dict.fromkeys((*self.exceptions[:1], *self.exceptions[-1:]))
        name = ": ".join(names) or str(self.kind)
        return _cut(f"{name}{location}{_after(' on ', self.op or '')}{_after(': ', self.message)}")

    def _difference_summary(self) -> str:
        what = str(Kind.ROUNDING) if self.rounding else "wrong result"
        if self.difference is None:
            raised = "".join(self.exceptions[-1:])
            if not self.rounding and raised not in ("", *_CHECKS):
                return _cut(f"{raised} with torch.compile, not in eager{_after(': ', self.message)}")
            if any(map(str.isalpha, self.message)):
                return _cut(f"{what}: {self.message}")
            return f"{what}: the script's own check fails{_after(': ', raised)}"
        if self.worse:
            return f"{what}: {', '.join(self.worse)} and {self.difference} differ from eager's"
        if self.difference == "value":
            share = f" by {self.magnitude:.2g} (relative)" if 0 < self.magnitude < 1 else ""
            return f"{what}: values differ from eager's{share}"
        if self.difference == STATE:
            return "wrong side effect: a compiled call leaves another Python state than eager"
        return f"{what}: {self.difference} differs from eager's"

    def _same_difference(self, other: Signature, strength: Strength) -> bool:
        if other.rounding and not self.rounding:
            return False
        if strength is not Strength.STRICT:
            # A user's own check may not say what differs.
            return None in (self.difference, other.difference) or _family(self.difference) == _family(other.difference)
        if self.difference is None and other.difference is None:
            return self.exceptions[-1:] == other.exceptions[-1:] and self._same_message(other, LIKENESS)
        if self.places and other.places and not set(other.places) & set(self.places):
            return False
        if set(other.worse) - set(self.worse):  # the original's kind shows beside it, and what counts is the worst
            return False
        return self.difference == other.difference and other.magnitude >= KEPT_MAGNITUDE * self.magnitude

    def _matches_other_kind(self, other: Signature, strength: Strength) -> bool:
        """Whether `other` is the same failure, although less is known of its run, or an earlier version named it."""
        mine, others = self.kind.policy, other.kind.policy
        if mine.hangs and others.hangs:
            if strength is Strength.CROSS_VERSION:
                return True
            # Of `repro.py` only the stacks are known, in which none compiles.
            return not other.message if self.kind is Kind.DEADLOCK else not self.frames
        if other.kind is Kind.WARNING and self.kind in _EARLIER_OF_WARNINGS:
            return self._same_exception(other, strength)
        return self._is_raised_by_script(other)

    def _is_raised_by_script(self, other: Signature) -> bool:
        """Whether `other` is the exception of the script's own check, read if nothing says that eager passes."""
        is_check = self.kind is Kind.ACCURACY and self.difference is None
        raised = other.kind is Kind.RUNTIME_ERROR and not other.frames and self.exceptions[-1:] == other.exceptions[-1:]
        return is_check and raised and self._same_message(other, LIKENESS)

    def _same_crash(self, other: Signature, strength: Strength) -> bool:
        """Memory corruption shows late and anywhere, so only the class of the signal is compared."""
        if self.signal != other.signal:
            return False
        if self.signal == MEMORY or strength is Strength.CROSS_VERSION:
            return True
        if self.message and other.message:
            return self._same_message(other, LIKENESS)
        # Which last words are printed is chance: another thread may print its own first.
        lenient = Strength.REBASED if self.message or other.message else strength
        return self._same_frame(other, lenient)

    def _same_place(self, other: Signature, strength: Strength) -> bool:
        # A compile that takes exponential time passes through many functions: the interrupted one is chance.
        if strength is Strength.REBASED and self.message and self.message == other.message:
            return True
        return self._same_loop(other)

    def _same_loop(self, other: Signature) -> bool:
        mine, others = set(self.frames), set(other.frames)
        if not mine or not others:
            return mine == others
        return len(mine & others) / min(len(mine), len(others)) >= LOOP_OVERLAP

    def _same_exception(self, other: Signature, strength: Strength) -> bool:
        if strength is Strength.STRICT and self.exceptions != other.exceptions:
            return False
        if self.exceptions[-1:] != other.exceptions[-1:] or not same_op(self.op, other.op):
            return False
        if strength is Strength.CROSS_VERSION:
            bare = not self.message or not other.message
            return bare or same_message(self.message, other.message, likeness=LIKENESS_ACROSS_VERSIONS, keys=False)
        if strength is Strength.STRICT and self.kind.policy.eager_raises and _words(self) != _words(other):
            return False  # another check of eager's: of the input, say, and not of the target
        return self._same_frame(other, strength) and self._same_message(other, LIKENESS)

    def _same_frame(self, other: Signature, strength: Strength) -> bool:
        """Compare the innermost frame. Short tracebacks, as after a change of subject, may have no frames."""
        if strength is not Strength.STRICT and not (self.frames and other.frames):
            return True
        if self.exceptions[-1:] == (_RECURSION,):
            return self._same_loop(other)
        return self.frames[:1] == other.frames[:1]

    def _same_message(self, other: Signature, likeness: float) -> bool:
        return same_message(self.message, other.message, likeness=likeness)


def focused(failure: Failure, target: Signature) -> Failure:
    """`failure` with the kind of difference that `target` has, if one run shows differences of several kinds."""
    if failure.difference is None or target.difference is None:
        return failure
    shown = [failure.difference, *failure.also]
    alike = sorted(
        (each for each in shown if each.kind in _family(target.difference)),
        key=lambda each: (each.kind != target.difference, each.place not in target.places),
    )
    if not alike or alike[0] is failure.difference:
        return failure
    return replace(failure, difference=alike[0], also=tuple(each for each in shown if each is not alike[0]))


def signature_of(failure: Failure) -> Signature:
    """The signature of `failure`."""
    chain = unwrap(failure.exceptions)
    if is_late(chain):
        chain = chain[-1:]  # which call raised it, and what wrapped it there, is chance
    match failure.kind.policy.shown_by:
        case ShownBy.SIGNAL:
            return _of_crash(failure)
        case ShownBy.VALUE:
            return Signature(failure.kind, message=failure.text)
        case ShownBy.WAIT:
            return Signature(failure.kind)
        case ShownBy.STACK:
            part = compiling_part(failure.stack)
            message = f"{_COMPILING} in {part}" if part else ""
            return Signature(failure.kind, message=message, frames=main_torch(failure.stack))
    message = normalise(chain[-1].message) if chain else ""
    difference = failure.difference
    return Signature(
        failure.kind,
        exceptions=tuple(short(link.type) for link in chain),
        message=message if difference is None else "",
        frames=() if is_late(chain) else _frames(chain),
        op=failure.op if failure.op and not is_kernel(failure.op) else None,
        difference=difference.kind if difference else None,
        magnitude=_magnitude(difference),
        rounding=failure.rounding,
        places=_places(failure),
        doubts=failure.doubts,
        worse=_worse(failure),
    )


def in_words(signature: Signature, *failures: Failure | None) -> str:
    """`signature.summary()` with the message as it was printed by the first of `failures` that has this message.

    Of a run that says nothing, its exit status.
    """
    for failure in failures:
        message = chain[-1].message if failure and (chain := unwrap(failure.exceptions)) else ""
        if failure and message and normalise(message) == signature.message:
            condition = asserted(failure.text) if is_late(chain) else ""
            return replace(signature, message=fault_line(message) + _after(": ", condition)).summary()
        if failure and failure.exit_status and signature.summary() == failure.kind:
            return f"exit status {failure.exit_status}"
    return signature.summary()


def raised_words(failure: Failure) -> str:
    """How a script ends, as it says it: ``"AssertionError: wrong result: tensor(0.0010)"``, or its exit status."""
    chain = unwrap(failure.exceptions)
    if not chain:
        return f"exit status {failure.exit_status}" if failure.exit_status else signature_of(failure).summary()
    said = f"{short(chain[-1].type)}{_after(': ', fault_line(chain[-1].message))}"
    return f'"{said if len(said) <= _LONGEST_SAID else said[: _LONGEST_SAID - 1] + "…"}"'


def _places(failure: Failure) -> tuple[str, ...]:
    """The places that show the kind of difference that the failure is about."""
    shown = [failure.difference, *failure.also]
    kind = failure.difference.kind if failure.difference else None
    return tuple(sorted({each.place for each in shown if each and each.kind == kind and each.where}))


def _worse(failure: Failure) -> tuple[str, ...]:
    """The kinds of difference that are worse than the one that the failure is about."""
    own = failure.difference.kind if failure.difference else None
    worse = takewhile(lambda kind: kind not in _family(own), KINDS_OF_DIFFERENCE)
    return tuple(kind for kind in worse if kind in {each.kind for each in failure.also})


def _magnitude(difference: Difference | None) -> float:
    """max_rel, capped at 1. An unbounded difference (eager has 0) counts as 1; NaN and differences of form as 0."""
    if difference is None or difference.kind != "value":
        return 0.0
    bounded = not difference.exact and math.isfinite(difference.max_rel)
    return min(difference.max_rel, 1.0) if bounded else 1.0


def _words(signature: Signature) -> set[str]:
    """The words of the message, without numbers and marks."""
    return set(_WORD.findall(signature.message))


def _family(kind: str | None) -> tuple[str | None, ...]:
    """The kinds that stand for one: comparisons may report one wrong result as NaN or as a wrong value."""
    return ("value", "nan") if kind in ("value", "nan") else (kind,)


def _of_crash(failure: Failure) -> Signature:
    signal = failure.signal
    if signal in _MEMORY_SIGNALS or tracebacks.is_heap_message(failure.text):
        return Signature(failure.kind, signal=MEMORY, frames=innermost_torch(failure.stack, _FRAMES))
    words = normalise(tracebacks.last_words(failure.text))
    return Signature(failure.kind, message=words, frames=innermost_torch(failure.stack, _FRAMES), signal=signal)


def _frames(chain: tuple[ExceptionLink, ...]) -> tuple[str, ...]:
    """The frames of the root cause, or of the wrapper that carries its traceback; of an endless recursion, its loop.

    A native compiler's error has none: it is raised wherever the compiler was called (inline, thread or worker).
    """
    if chain and is_final(chain[-1]):
        return ()
    is_loop = bool(chain) and short(chain[-1].type) == _RECURSION
    for link in reversed(chain):
        frames = (recurring_torch(link.frames) if is_loop else ()) or innermost_torch(link.frames, _FRAMES)
        if frames:
            return frames
    return ()


def _after(separator: str, text: str) -> str:
    return separator + text if text else ""


def _cut(text: str, limit: int = 160) -> str:
    text = _NUMBER.sub("…", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


class RunOutcome(StrEnum):
    """The outcome of one run. The values are those of files and of ``--json``, and stay as they are."""

    PASSES = "pass"
    FAILS_ALIKE = "same"  # with the failure that is looked for
    FAILS_OTHERWISE = "other"  # with another failure, which is no evidence for or against the one looked for
    INVALID = "invalid"  # the subject is broken in eager too, or is nothing that may be run
    CANNOT_TELL = "infra"  # the run could not be made, or it shows nothing; the verdict's note says why


_OF_STATUS = {
    Status.PASS: RunOutcome.PASSES,
    Status.FAIL: RunOutcome.FAILS_OTHERWISE,
    Status.INVALID: RunOutcome.INVALID,
}


def outcome_from(status: Status, *, alike: bool) -> RunOutcome:
    """The outcome of a run that ended with `status`; `alike`: its failure is the one that is looked for."""
    return RunOutcome.FAILS_ALIKE if alike else _OF_STATUS.get(status, RunOutcome.CANNOT_TELL)


def outcome_of(verdict: Verdict, expected: Signature | None, strength: Strength) -> RunOutcome:
    """What a verdict means for somebody who looks for the failure `expected`; None: for any failure."""
    failure = verdict.failure
    alike = expected is None or (
        failure is not None and expected.matches(signature_of(focused(failure, expected)), strength)
    )
    return outcome_from(verdict.status, alike=alike and verdict.status is Status.FAIL)


def failure_alike(
    verdict: Verdict, expected: Signature | None, strength: Strength = Strength.REBASED
) -> Failure | None:
    """The failure of `verdict`, with what `expected` compares first, if the two are alike; else None."""
    if verdict.failure is None or outcome_of(verdict, expected, strength) is not RunOutcome.FAILS_ALIKE:
        return None
    return focused(verdict.failure, expected) if expected is not None else verdict.failure
