"""What went wrong in one run, and the verdict on this run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from repro_kit.failure.kinds import Kind
from repro_kit.probe.repro_probe.protocol.failure_data import place_of


class Layer(StrEnum):
    """The part of the compiler stack at fault."""

    DYNAMO = "dynamo"
    AOT = "aot"
    DECOMPOSITION = "decomposition"
    INDUCTOR = "inductor"
    EXPORT = "export"  # torch.export
    AOT_INDUCTOR = "aot-inductor"  # what AOTInductor adds to Inductor
    PRECOMPILE = "precompile"  # what torch.compiler.precompile adds to Inductor
    BACKEND = "backend"  # a user's own backend
    USER = "user"  # fails in eager too


class Phase(StrEnum):
    """What a run was doing. The probe reports each phase before it begins, so that a killed run has one too."""

    LOAD = "load"  # executing the program's text, building inputs
    EAGER = "eager"
    COMPILE = "compile"  # first compiled call, up to its return or exception
    RUN = "run"  # later compiled calls
    BACKWARD = "backward"
    COMPARE = "compare"
    EXIT = "exit"  # after all outputs were compared (late memory corruption shows here)


@dataclass(frozen=True)
class Frame:
    """One Python stack frame."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True)
class ExceptionLink:
    """One exception of a chain: qualified type, message as raised, and its own frames (outermost first)."""

    type: str
    message: str
    frames: tuple[Frame, ...] = ()


#: The kind of a difference in the Python state that a call leaves: its results agree with eager's.
STATE = "state"


@dataclass(frozen=True)
class Difference:
    """How a compiled result differs from eager's.

    `kind`: ``value``, ``nan``, ``shape``, ``dtype``, ``stride``, ``alias``, ``structure``, ``requires_grad``, `STATE`.
    `where`: ``output 0``, ``grad of x``, ``x after the call`` …
    """

    kind: str
    where: str
    max_abs: float = 0.0
    max_rel: float = 0.0
    fraction: float = 0.0  # of elements outside the tolerance, 0 to 1
    detail: str = ""
    exact: bool = False  # integers or booleans: no tolerance applies
    index: tuple[int, ...] | None = None  # of the first wrong element; None: one element only, or a form
    eager: str = ""  # what eager gives there, and what the compiled program gives; "": not recorded
    compiled: str = ""

    @classmethod
    def of_state(cls, where: str, eager: str, compiled: str) -> Difference:
        """A difference in the Python state that a call leaves; both sides in words."""
        words = f"eager {eager}, compiled {compiled}"
        return cls(STATE, where, detail=words, exact=True, eager=eager, compiled=compiled)

    @property
    def place(self) -> str:
        """An output, a gradient, or an argument that the program wrote to."""
        return place_of(self.where)


@dataclass(frozen=True)
class Measured:
    """A measurement of one run with its noise: the interval from `low` to `high`. A count has none: both equal `value`.

    The unit is that of the measure (seconds, bytes, a count, or a ratio).
    """

    value: float
    low: float
    high: float
    detail: str = ""  # its parts: "f at train.py:12 5×"
    limit: float = 0.0  # a value above this is a failure

    @classmethod
    def exact(cls, value: float, detail: str = "") -> Measured:
        """A measurement without noise, such as a count."""
        return cls(value, value, value, detail)


@dataclass(frozen=True)
class Failure:
    """What went wrong in one run, as observed; nothing normalised."""

    kind: Kind
    phase: Phase | None = None
    exceptions: tuple[ExceptionLink, ...] = ()  # outermost first; the last one is the root cause
    signal: str | None = None  # "SIGSEGV"
    exit_status: int | None = None
    text: str = ""  # end of stderr, or the compiler's output
    difference: Difference | None = None
    also: tuple[Difference, ...] = ()  # one for each further kind and place that the same run shows
    tolerance: tuple[float, float] | None = None  # (rtol, atol) of the comparison, if they are not the default
    rounding: bool = False  # eager's own rounding explains every difference; only a stated tolerance shows them
    stack: tuple[Frame, ...] = ()  # Python stack at the signal or time-out, outermost first
    compile_id: str | None = None
    op: str | None = None  # "aten.index_put.default", if the failure names one
    step: str | None = None  # the last compile step that began and did not end
    origins: tuple[str, ...] = ()  # values and kernels of the program that were being compiled, likeliest first
    measured: Measured | None = None  # if a measurement shows the failure
    doubts: tuple[str, ...] | None = None  # why the program's results are not defined; None if nobody looked

    @classmethod
    def upgraded(cls, data: dict[str, Any]) -> dict[str, Any]:
        """`data` of an earlier version, for which a deadlock was a time-out with a mark."""
        return {**data, "kind": Kind.DEADLOCK} if data.get("deadlock") else data


class Status(StrEnum):
    """The outcome of one run."""

    PASS = "pass"
    FAIL = "fail"
    INVALID = "invalid"  # the subject is broken in eager too
    FLAKY = "flaky"
    CANNOT_TELL = "infra"  # the run could not be made, or it reported nothing; the note says why
    NOT_RUN = "skipped"  # not run, since it could show nothing


@dataclass(frozen=True)
class Verdict:
    """The result of one run: a status, the failure (for `fail` and `invalid`), and the time it took in seconds."""

    status: Status
    failure: Failure | None = None
    seconds: float = 0.0
    note: str = ""
    fallback_random: bool = False  # the run fails with this setting on, and its recipe has it off
    measured: str = ""  # the measured value, short: "5", "1.24x"
    rounding: bool = False  # the run passes, and differs from eager by no more than rounding explains
    wrong: tuple[str, ...] = ()  # the results that are certainly wrong ("grad of x"), if any result differs
    right: tuple[str, ...] = ()  # and those that are right, although they might show it
