"""The kinds of failure: one object each, which says how a failure of this kind is seen, compared, run and described.

Code asks the policy of a kind for what it needs to know (`kind.policy.hangs`), so that a new kind is an entry here, and
what decides that a failure is of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Evidence(StrEnum):
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

    evidence: Evidence = Evidence.EXCEPTION
    any_alike: bool = False  # two failures of this kind are the same, whatever else their signatures hold
    in_compiler: bool = False  # the compiler itself raises, before any value of the program was computed
    compared: bool = False  # shows when compiled calls are compared with the same calls in eager
    eager_raises: bool = False  # eager raises as it should; that the run raises too is no failure
    of_graphs: bool = False  # `--check` looks for it in the recorded graphs, even if nothing of the script failed
    varies: bool = False  # may differ from run to run
    slow: bool = False  # each run takes long, so that runs are not repeated, and the matrix is the quick one
    alone: bool = False  # time or memory decides, so that nothing else may run beside it
    blunt: bool = False  # the signature says what happened, but not where
    not_reduced: str = ""  # why a script that fails like this is not reduced
    units: tuple[Unit, ...] = ()  # of the limit of a measurement, the default first
    in_eager: bool = False  # eager can be measured as well, and is the baseline of a ratio
    counted: str = ""  # what `repro.py` counts by itself, in torch's trace
    form: str = ""  # as `--check` takes it: ``recompiles>N``
    title: str = ""
    summary: str = ""
    expected: str = "The code compiles and runs, as it does in eager."
    line: str = ""  # how a run fails, where neither an exception nor a value says it
    comment: str = ""  # beside the last line of a program
    ending: str = "This test fails as long as the bug exists."
    doing: str = "raises"  # what the code that was running did
    search: str = "wrong result"  # words to search for, if the message has none
    label: str = ""  # of PyTorch's issue tracker

    @property
    def measured(self) -> bool:
        """Whether no exception shows it: a measurement above its limit, or the verdict of the user's oracle."""
        return self.evidence is Evidence.VALUE and not self.of_graphs

    @property
    def hangs(self) -> bool:
        """Whether the run does not end."""
        return self.evidence in (Evidence.STACK, Evidence.WAIT)

    @property
    def ends_process(self) -> bool:
        """Whether the process does not end by itself, so that another one must watch it."""
        return self.hangs or self.evidence is Evidence.SIGNAL

    @property
    def raised_compiled(self) -> bool:
        """Whether the compiled run has frames to show: an exception's, or those of the interrupted run."""
        return not self.compared and self.evidence in (Evidence.EXCEPTION, Evidence.SIGNAL, Evidence.STACK)


_ENDS = "The run ends. Eager ends at once."
_ENDLESS, _ENDLESS_TEST = "does not end", "As long as the bug exists, this test does not end."
_INTERRUPTED = "was running when the time was up"


def _measurement(
    label: str,
    units: tuple[Unit, ...],
    *,
    form: str = "",
    counted: str = "",
    in_eager: bool = False,
    not_reduced: str = "",
) -> Policy:
    """The policy of a kind that a measurement shows."""
    return Policy(
        Evidence.VALUE,
        alone=True,
        blunt=True,
        not_reduced=not_reduced,
        units=units,
        in_eager=in_eager,
        counted=counted,
        form=form,
        expected="The measured value stays below that limit.",
        label=label,
    )


class Kind(StrEnum):
    """The kind of a failure, the name that files and `--json` have for it, and its policy."""

    policy: Policy

    def __new__(cls, name: str, policy: Policy = Policy()) -> Kind:
        """A member with its policy; a name alone finds the member."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.policy = policy
        return member

    DYNAMO_ERROR = "dynamo-error", Policy(in_compiler=True, title="{subject} {does} not {refused}")
    COMPILE_ERROR = "compile-error", Policy(in_compiler=True, title="{subject} {does} not {refused}")
    RUNTIME_ERROR = "runtime-error", Policy(title="{compiled} raise{s} {raised}")
    #: The compiled code warns, and the script turns warnings into errors; eager does not warn.
    WARNING = (
        "warning",
        Policy(
            title="{compiled} give{s} a {raised} that eager does not give",
            summary="warning with torch.compile only: {raised}{location}",
            expected="The compiled code gives no warning, as eager gives none.",
            doing="warns",
        ),
    )
    ACCURACY = (
        "accuracy",
        Policy(
            Evidence.DIFFERENCE,
            compared=True,
            of_graphs=True,
            varies=True,
            blunt=True,
            form="accuracy",
            expected="The compiled code gives the same results as eager, within the usual tolerance.",
            label="module: correctness (silent)",
        ),
    )
    #: A difference that eager's own rounding explains; no bug by itself.
    ROUNDING = "rounding", Policy(Evidence.DIFFERENCE, blunt=True, label="module: numerical-stability")
    #: Eager raises, and the compiled program returns.
    VALIDATION = (
        "validation",
        Policy(
            compared=True,
            eager_raises=True,
            of_graphs=True,
            form="validation",
            title="{compiled} {does} not raise eager's {raised}",
            summary="validation lost: eager raises {raised}",
            expected="The compiled code raises, as eager does.",
            label="module: error checking",
        ),
    )
    CRASH = (
        "crash",
        Policy(
            Evidence.SIGNAL,
            varies=True,
            alone=True,
            blunt=True,
            title="{signal} {compiled}",
            summary="crash by {signal}{location}",
            expected="The process does not crash. Eager runs to the end.",
            line="the process dies of {signal}",
            comment="dies of {signal}",
            ending="As long as the bug exists, this test crashes its process.",
            doing="was running when the process died",
            search="crash",
            label="module: crash",
        ),
    )
    #: A hang, or a compile that does not end in time.
    TIMEOUT = (
        "timeout",
        Policy(
            Evidence.STACK,
            varies=True,
            slow=True,
            alone=True,
            blunt=True,
            title="{compiled} hang{s}",
            summary="hang{location}",
            expected=_ENDS,
            line="the run does not end: it hangs, or compiles forever",
            comment=_ENDLESS,
            ending=_ENDLESS_TEST,
            doing=_INTERRUPTED,
            search="hang",
        ),
    )
    #: A hang in which the ranks of a distributed run wait for each other.
    DEADLOCK = (
        "deadlock",
        Policy(
            Evidence.WAIT,
            varies=True,
            slow=True,
            alone=True,
            blunt=True,
            title="ranks deadlock in {compiled}",
            summary="hang: the ranks wait for each other",
            expected=_ENDS,
            line="the run does not end: the ranks wait for each other",
            comment=_ENDLESS,
            ending=_ENDLESS_TEST,
            doing=_INTERRUPTED,
            search="deadlock",
            label="module: deadlock",
        ),
    )
    OOM = (
        "oom",
        Policy(
            any_alike=True,
            alone=True,
            blunt=True,
            not_reduced="a run that takes all memory is not repeated",
            title="{compiled} run{s} out of memory, eager does not",
            expected="The memory is sufficient, as it is for eager.",
            label="module: memory usage",
        ),
    )
    RECOMPILES = (
        "recompiles",
        _measurement("module: compile-time", (Unit.COUNT, Unit.RATIO), form="recompiles>N", counted="recompiles"),
    )
    GRAPH_BREAKS = (
        "graph-breaks",
        _measurement("module: graph breaks", (Unit.COUNT, Unit.RATIO), form="graph-breaks>N", counted="graph breaks"),
    )
    COMPILE_TIME = (
        "compile-time",
        _measurement("module: compile-time", (Unit.SECONDS, Unit.RATIO), form="compile-time>S", counted="seconds"),
    )
    #: Compile time grows faster than a power of the number of repetitions.
    COMPILE_GROWTH = (
        "compile-growth",
        Policy(
            Evidence.VALUE,
            of_graphs=True,
            slow=True,
            alone=True,
            units=(Unit.COUNT,),
            form="compile-growth>N",
            title="compile time of {subject} grows too fast",
            expected="Compile time grows in proportion to the size of the graph, or nearly so.",
            label="module: compile-time",
        ),
    )
    SLOWDOWN = (
        "slowdown",
        _measurement(
            "module: performance",
            (Unit.RATIO,),
            form="slowdown>X",
            in_eager=True,
            not_reduced="times differ from run to run",
        ),
    )
    MEMORY = (
        "memory",
        _measurement(
            "module: memory usage",
            (Unit.RATIO, Unit.BYTES),
            form="memory>X",
            in_eager=True,
            not_reduced="the peak of the memory is measured on the script itself",
        ),
    )
    #: The user's own oracle command says that the run is bad.
    ORACLE = "oracle", _measurement("", (), not_reduced="your oracle runs the script itself")
