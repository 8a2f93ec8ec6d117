"""Answers to what a maintainer asks of a report, as data: the texts of a bundle and ``--json`` word them.

A fact that could not be had is None or empty, and `Answers.unknown` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Names of facts that may not be known: those of the fields of `Answers`.
Fact = Literal[
    "first_wrong",
    "double",
    "with_casts",
    "places",
    "kernel",
    "eager_seconds",
    "builds",
    "variants",
    "workaround",
    "replay",
]


@dataclass(frozen=True)
class FirstWrong:
    """The first wrong part of a wrong result, as eager and the compiled program give it.

    `what`: ``value``, ``nan``, or a form: ``shape``, ``dtype``, ``stride``, ``alias``, ``state`` …
    """

    what: str
    where: str  # "output 0", "grad of x", "x after the call", "seen after call 1"
    eager: str
    compiled: str
    index: str = ""  # "[0, 3]"; "" if there is one element only, and for a form
    double: str = ""  # the same element in float64; "" if the program cannot be run so


@dataclass(frozen=True)
class DoubleErrors:
    """The largest errors of one wrong result against the same program in float64.

    `eager_apart`, `compiled_apart`: elements without an error, since NaN or infinity stands on one side only.
    """

    where: str
    dtype: str
    eager: float
    compiled: float
    eager_apart: int = 0
    compiled_apart: int = 0


@dataclass(frozen=True)
class TorchSource:
    """A place in the source of the installed torch."""

    what: str  # "lowering of aten.avg_pool2d_backward.default"
    file: str  # "torch/_inductor/lowering.py"
    line: int
    function: str = ""
    link: str = ""  # to this line at the commit of the installed torch; "" if the commit is not known


@dataclass(frozen=True)
class GeneratedKernel:
    """The one kernel that Inductor generates for the reduced program, or for its operator at fault (`around`)."""

    name: str
    language: str  # "cpp" or "triton"
    code: str
    left_out: int = 0  # lines that are not shown
    marked: int = 0  # the line that the values point to, from 1; 0: none
    why: str = ""  # what the values show about that line


def around(count: int, at: int, most: int) -> list[int]:
    """Of a kernel's `count` lines the signature and those around number `at`; -1: the last, which store the result."""
    if count <= most:
        return list(range(count))
    room = most - 1
    last = count - room
    first = max(1, min(at - room // 2, last)) if at >= 0 else last
    return [0, *range(first, first + room)]


@dataclass(frozen=True)
class TriedVariant:
    """Something else that was tried, or was not: a device, a build, a size, a dtype, a subsystem that was off."""

    what: str
    outcome: str = ""  # "passes", "fails", "not tried (this machine has none)"; "" for a removal that leaves no program


@dataclass(frozen=True)
class TriedWorkaround:
    """A change with which the subject was seen to pass."""

    what: str
    subject: Literal["program", "script"]  # what passed with it
    lines: tuple[str, ...] = ()  # code to paste


@dataclass(frozen=True)
class UnknownFact:
    """A fact that could not be had, and why."""

    fact: Fact
    why: str


@dataclass(frozen=True)
class Answers:
    """What is known of one failure, beyond the story: each field answers one question of a maintainer."""

    first_wrong: FirstWrong | None = None
    double: tuple[DoubleErrors, ...] = ()
    with_casts: Literal["fails", "passes", ""] = ""  # with torch._inductor.config.emulate_precision_casts
    places: tuple[TorchSource, ...] = ()  # where to look, likeliest first
    kernel: GeneratedKernel | None = None
    runs: str = ""  # "3 of 3 runs fail, exit status 1"
    eager_seconds: float | None = None  # of a hang: in eager the program, or the whole script, takes less than this
    devices: tuple[TriedVariant, ...] = ()
    builds: tuple[TriedVariant, ...] = ()
    variants: tuple[TriedVariant, ...] = ()  # sizes, dtypes and settings next to the reduced program's own
    workaround: TriedWorkaround | None = None
    replay: str = ""  # one command with TORCH_BISECT_* variables
    subsystems: tuple[TriedVariant, ...] = ()  # of the compiler, each switched off
    unknown: tuple[UnknownFact, ...] = ()

    def why_unknown(self, fact: Fact) -> str:
        """Why `fact` could not be had; "" if it is known, or is no fact of this failure."""
        return next((each.why for each in self.unknown if each.fact == fact), "")
