"""What went wrong in one run, and the verdict on that run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Kinds of failure; `TIMEOUT` is a hang (or a compile that takes for ever)."""

    DYNAMO_ERROR = "dynamo-error"
    COMPILE_ERROR = "compile-error"
    RUNTIME_ERROR = "runtime-error"
    ACCURACY = "accuracy"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"
    RECOMPILES = "recompiles"  # this and the next: more than a limit, see model/measure/symptom.py
    GRAPH_BREAKS = "graph-breaks"
    COMPILE_TIME = "compile-time"
    SLOWDOWN = "slowdown"
    MEMORY = "memory"
    ORACLE = "oracle"  # a command of the user's calls the run bad


#: Kinds that nothing raises: a measurement above its limit, a run that the user's oracle calls bad.
MEASURED = (Kind.RECOMPILES, Kind.GRAPH_BREAKS, Kind.COMPILE_TIME, Kind.SLOWDOWN, Kind.MEMORY, Kind.ORACLE)


class Layer(StrEnum):
    """The part of the torch.compile stack at fault."""

    DYNAMO = "dynamo"
    AOT = "aot"
    DECOMPOSITION = "decomposition"
    INDUCTOR = "inductor"
    BACKEND = "backend"  # a user's own backend
    USER = "user"  # fails in eager too


class Phase(StrEnum):
    """What a run was doing; reported by the probe before each step, so that a killed run still has one."""

    LOAD = "load"  # executing the program's text, building inputs
    EAGER = "eager"
    COMPILE = "compile"  # first compiled call, up to its return or exception
    RUN = "run"  # later compiled calls
    BACKWARD = "backward"
    COMPARE = "compare"
    EXIT = "exit"  # after everything was judged (late memory corruption shows here)


@dataclass(frozen=True)
class Frame:
    """One Python stack frame."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True)
class ExceptionLink:
    """One exception of a chain: qualified type, message as raised, its own frames from outermost to innermost."""

    type: str
    message: str
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True)
class Difference:
    """How a compiled result differs from eager's.

    `kind`: ``value``, ``nan``, ``shape``, ``dtype``, ``stride``, ``alias``, ``structure`` or ``requires_grad``.
    `where`: ``output 0``, ``grad of x``, ``x after the call`` …
    """

    kind: str
    where: str
    max_abs: float = 0.0
    max_rel: float = 0.0
    fraction: float = 0.0  # of elements outside the tolerance
    detail: str = ""
    exact: bool = False  # of integers or booleans: any difference of values is simply wrong

    @property
    def of_argument(self) -> bool:
        """Whether it is an argument that differs, which was written to."""
        return self.where.endswith(" after the call")


@dataclass(frozen=True)
class Measured:
    """What was measured of a run, with its noise (`low` to `high`; equal where a count has none)."""

    value: float
    low: float
    high: float
    detail: str = ""  # what it is made of: "f at train.py:12 5×"
    limit: float = 0.0  # above which it is a failure

    @classmethod
    def exact(cls, value: float, detail: str = "") -> Measured:
        """A measurement without noise."""
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
    also: tuple[Difference, ...] = ()  # one for each further, milder kind that the same run shows
    tolerance: tuple[float, float] | None = None  # (rtol, atol) to tell it by, where that is not the usual one
    stack: tuple[Frame, ...] = ()  # Python stack at the signal or time-out, outermost first
    compile_id: str | None = None
    op: str | None = None  # "aten.index_put.default", where the failure names one
    step: str | None = None  # last compile step that began and did not end
    origins: tuple[str, ...] = ()  # values and kernels of the program that the compiler was at work on, likeliest first
    measured: Measured | None = None  # of a kind in MEASURED


class Status(StrEnum):
    """Outcome of one run."""

    PASS = "pass"
    FAIL = "fail"
    INVALID = "invalid"  # the subject is broken in eager too
    FLAKY = "flaky"
    CANNOT_TELL = "infra"  # the run could not be made, or it reported nothing; the note says why
    NOT_RUN = "skipped"  # not run, since it could tell nothing


@dataclass(frozen=True)
class Verdict:
    """Result of one run: a status, the failure (for `fail` and `invalid`), and how long it took."""

    status: Status
    failure: Failure | None = None
    seconds: float = 0.0
    note: str = ""
    fallback_random: bool = False  # it fails with that setting on, which its recipe lacks
    measured: str = ""  # what was measured, in a word: "5", "1.24x"
