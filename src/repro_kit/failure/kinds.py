"""The kinds of failure: one object each, which says how a failure of this kind is seen, compared, run and described.

Code asks the policy of a kind for what it needs to know (`kind.policy.hangs`), so that a new kind is an entry here, and
what decides that a failure is of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from repro_kit.probe.repro_probe.protocol.orders import Measure


class ShownBy(StrEnum):
    """What shows a failure. It decides what a signature holds, and how two signatures are compared."""

    EXCEPTION = "exception"  # the chain of exceptions: types, message, frames, operator
    DIFFERENCE = "difference"  # from eager's results
    SIGNAL = "signal"  # the signal that ended the process, and its last words
    STACK = "stack"  # where the run was when its time was up
    WAIT = "wait"  # ranks that wait for each other: the kind alone is compared
    VALUE = "value"  # a measured value above its limit, or the answer of an oracle: the kind alone is compared


class Unit(StrEnum):
    """The unit of a limit."""

    COUNT = "count"
    SECONDS = "seconds"
    BYTES = "bytes"
    RATIO = "ratio"


@dataclass(frozen=True)
class Policy:
    """What repro-kit does with a failure of one kind, and the words for it.

    Fields of `title`: ``{subject}`` and ``{compiled}`` (``compiled relu``), ``{raised}`` (the type of the exception),
    and for the grammar ``{s}`` and ``{does}``. ``{raised}`` and ``{location}`` may be in `summary`, too.
    """

    shown_by: ShownBy = ShownBy.EXCEPTION
    any_alike: bool = False  # two failures of this kind are the same, whatever else their signatures hold
    in_compiler: bool = False  # the compiler itself raises, before any value of the program was computed
    compared: bool = False  # shows when compiled calls are compared with the same calls in eager
    eager_raises: bool = False  # eager raises as it should; that the run raises too is no failure
    of_graphs: bool = False  # `--check` looks for it in the recorded graphs, even if nothing of the script failed
    not_reduced: str = ""  # why a script that fails like this is not reduced
    units: tuple[Unit, ...] = ()  # of the limit of a measurement, the default first
    in_eager: bool = False  # eager can be measured as well, and is the baseline of a ratio
    counted: str = ""  # what `repro.py` counts by itself, in torch's trace
    form: str = ""  # as `--check` takes it: ``recompiles>N``
    probe: Measure | None = None  # what the probe measures for it, in calls that it repeats; None: every run shows it
    reading: str = "{value:g}"  # a measured value in words, with its unit; a value in bytes has its own
    title: str = ""
    summary: str = ""
    expected: str = "The code compiles and runs, as it does in eager."
    line: str = ""  # how a run fails, if neither an exception nor a value says it
    comment: str = ""  # a comment after the last line of a program
    ending: str = "This test fails as long as the bug exists."
    doing: str = "raises"  # what the code that was running did
    search: str = "wrong result"  # words to search for, if the message has none
    label: str = ""  # of PyTorch's issue tracker

    @property
    def measured(self) -> bool:
        """Whether no exception shows it: a measurement above its limit, or the verdict of the user's oracle."""
        return self.shown_by is ShownBy.VALUE and not self.of_graphs

    @property
    def slow(self) -> bool:
        """Whether each run takes long, so that runs are not repeated, and the matrix is the quick one."""
        return self.hangs or (self.shown_by is ShownBy.VALUE and self.of_graphs)

    @property
    def varies(self) -> bool:
        """Whether it may differ from run to run."""
        return self.shown_by is ShownBy.DIFFERENCE or self.ends_process

    @property
    def alone(self) -> bool:
        """Whether time or memory decides, so that nothing else may run at the same time."""
        return self.shown_by is ShownBy.VALUE or self.ends_process or self.any_alike

    @property
    def blunt(self) -> bool:
        """Whether the signature says what happened, but not where."""
        return self.measured or self.varies or self.any_alike

    @property
    def hangs(self) -> bool:
        """Whether the run does not end."""
        return self.shown_by in (ShownBy.STACK, ShownBy.WAIT)

    @property
    def ends_process(self) -> bool:
        """Whether the process does not end by itself, so that another one must watch it."""
        return self.hangs or self.shown_by is ShownBy.SIGNAL

    @property
    def raised_compiled(self) -> bool:
        """Whether the compiled run has frames to show: an exception's, or those of the interrupted run."""
        return not self.compared and self.shown_by not in (ShownBy.DIFFERENCE, ShownBy.VALUE)


_BELOW = "The measured value stays below that limit."
_HANG = Policy(
    ShownBy.STACK,
    title="{compiled} hang{s}",
    summary="hang{location}",
    expected="The run ends. Eager ends at once.",
    line="the run does not end: it hangs, or compiles forever",
    comment="does not end",
    ending="As long as the bug exists, this test does not end.",
    doing="was running when the time was up",
    search="hang",
)
_DEADLOCK = replace(
    _HANG,
    shown_by=ShownBy.WAIT,
    title="ranks deadlock in {compiled}",
    summary="hang: the ranks wait for each other",
    line="the run does not end: the ranks wait for each other",
    search="deadlock",
    label="module: deadlock",
)
_CRASH = Policy(
    ShownBy.SIGNAL,
    title="{signal} {compiled}",
    summary="crash by {signal}{location}",
    expected="The process does not crash. Eager runs to the end.",
    line="the process dies of {signal}",
    comment="dies of {signal}",
    ending="As long as the bug exists, this test crashes its process.",
    doing="was running when the process died",
    search="crash",
    label="module: crash",
)
_ACCURACY = Policy(
    ShownBy.DIFFERENCE,
    compared=True,
    of_graphs=True,
    form="accuracy",
    probe="accuracy",
    expected="The compiled code gives the same results as eager, within the usual tolerance.",
    label="module: correctness (silent)",
)
_VALIDATION = Policy(
    compared=True,
    eager_raises=True,
    of_graphs=True,
    form="validation",
    probe="validation",
    title="{compiled} {does} not raise eager's {raised}",
    summary="compiled code does not raise eager's {raised}",
    expected="The compiled code raises, as eager does.",
    label="module: error checking",
)
_WARNING = Policy(
    title="{compiled} give{s} a {raised}",
    summary="{raised}{location}",
    expected="The compiled code gives no warning, as eager gives none.",
    doing="warns",
)
_OOM = Policy(
    any_alike=True,
    not_reduced="a run that takes all memory is not repeated",
    title="{compiled} run{s} out of memory, eager does not",
    expected="The memory is sufficient, as it is for eager.",
    label="module: memory usage",
)
_RECOMPILES = Policy(
    ShownBy.VALUE,
    units=(Unit.COUNT, Unit.RATIO),
    form="recompiles>N",
    counted="recompiles",
    reading="{value:g} recompile{s}",
    expected=_BELOW,
    label="module: compile-time",
)
_GRAPH_BREAKS = replace(
    _RECOMPILES,
    form="graph-breaks>N",
    counted="graph breaks",
    reading="{value:g} graph break{s}",
    label="module: graph breaks",
)
_COMPILE_TIME = replace(
    _RECOMPILES,
    units=(Unit.SECONDS, Unit.RATIO),
    form="compile-time>S",
    counted="seconds",
    reading="{value:.1f} s of compiling",
)
_COMPILE_GROWTH = Policy(
    ShownBy.VALUE,
    of_graphs=True,
    units=(Unit.COUNT,),
    form="compile-growth>N",
    title="compile time of {subject} grows too fast",
    expected="Compile time grows in proportion to the size of the graph, or nearly so.",
    label="module: compile-time",
)
_SLOWDOWN = Policy(
    ShownBy.VALUE,
    in_eager=True,
    not_reduced="times differ from run to run",
    units=(Unit.RATIO,),
    form="slowdown>X",
    probe="time",
    reading="{value:.2f}x eager's time",
    expected=_BELOW,
    label="module: performance",
)
_MEMORY = replace(
    _SLOWDOWN,
    not_reduced="the peak of the memory is measured on the script itself",
    units=(Unit.RATIO, Unit.BYTES),
    form="memory>X",
    probe="memory",
    reading="{value:.2f}x eager's memory",
    label="module: memory usage",
)
_REFUSED = Policy(in_compiler=True, title="{subject} {does} not {refused}")


class Kind(StrEnum):
    """The kind of a failure, the name that files and `--json` have for it, and its policy."""

    policy: Policy

    def __new__(cls, name: str, policy: Policy = Policy()) -> Kind:
        """A member with its policy; a name alone finds the member."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.policy = policy
        return member

    DYNAMO_ERROR = "dynamo-error", _REFUSED
    COMPILE_ERROR = "compile-error", _REFUSED
    RUNTIME_ERROR = "runtime-error", Policy(title="{compiled} raise{s} {raised}")
    WARNING = "warning", _WARNING  # of compiled code only, if the script turns warnings into errors
    ACCURACY = "accuracy", _ACCURACY
    ROUNDING = "rounding", Policy(ShownBy.DIFFERENCE, label="module: numerical-stability")  # no bug by itself
    VALIDATION = "validation", _VALIDATION  # eager raises, and the compiled program returns
    CRASH = "crash", _CRASH
    TIMEOUT = "timeout", _HANG  # or a compile that does not end in time
    DEADLOCK = "deadlock", _DEADLOCK  # of the ranks of a distributed run
    OOM = "oom", _OOM
    RECOMPILES = "recompiles", _RECOMPILES
    GRAPH_BREAKS = "graph-breaks", _GRAPH_BREAKS
    COMPILE_TIME = "compile-time", _COMPILE_TIME
    COMPILE_GROWTH = "compile-growth", _COMPILE_GROWTH  # grows faster than a power of the number of repetitions
    SLOWDOWN = "slowdown", _SLOWDOWN
    MEMORY = "memory", _MEMORY
    ORACLE = "oracle", Policy(ShownBy.VALUE, not_reduced="your oracle runs the script itself", expected=_BELOW)


#: The forms of `--check`, for messages and help.
SYMPTOM_FORMS = ", ".join(kind.policy.form for kind in Kind if kind.policy.form)
