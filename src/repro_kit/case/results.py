"""What each stage leaves in the case, as typed data; one class a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from repro_kit.model.failure.failure import Difference, Failure, Layer, Status, Verdict
from repro_kit.model.failure.nature import Nature
from repro_kit.model.failure.signature import Signature
from repro_kit.model.recipe import Recipe


@dataclass(frozen=True)
class GitState:
    """The user's repository; `remotes` carry no credentials."""

    root: str
    commit: str | None
    branch: str | None
    dirty: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Environment:
    """`env.json`."""

    python: str  # version
    executable: str
    platform: str
    torch: str | None  # version
    torch_git: str | None = None
    collect_env: str = ""  # text of torch.utils.collect_env
    config: dict[str, Any] = field(default_factory=dict)  # non-default, "inductor.cpp.simdlen": 8
    variables: dict[str, str] = field(default_factory=dict)  # allow-listed environment variables
    packages: dict[str, str] = field(default_factory=dict)
    threads: int | None = None
    accelerator: str | None = None  # "cuda", …, when one is usable
    git: GitState | None = None


@dataclass(frozen=True)
class Artifact:
    """An `fx_graph_runnable` extracted from the trace."""

    compile_id: str  # "0/1", tlparse's text form
    path: str  # within the case
    rank: int | None = None


@dataclass(frozen=True)
class ObservedFailure:
    """One distinct failure of the observed run."""

    failure: Failure
    signature: Signature
    count: int = 1
    source: Literal["exception", "trace", "output", "exit", "measured"] = "exception"
    rank: int | None = None
    nature: Nature = Nature.OPEN


@dataclass(frozen=True)
class Observation:
    """`observe/run.json`."""

    argv: tuple[str, ...]
    exit_status: int | None  # None when killed by a signal or at the time-out
    signal: str | None
    timed_out: bool
    seconds: float
    peak_memory: int  # bytes, whole process tree
    python: str | None  # interpreter in which torch was seen
    torch: str | None
    failures: tuple[ObservedFailure, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    graphs: int = 0  # compile ids seen
    last_step: str | None = None  # compile step that began and did not end
    eager: Status | None = None  # verdict of the same command under TORCH_COMPILE_DISABLE=1; None: not run
    warnings: tuple[str, ...] = ()
    settled: bool = True  # False: whether the compiler is to blame was left to a graph that fails alone, or to `settle`
    recorded: bool = False  # the graphs were recorded in this run, below `observe/probe`
    compared: int = 0  # compiled calls that were held against eager in this run, and agreed with it


@dataclass(frozen=True)
class Start:
    """One start of the user's command, a line of `starts.jsonl`: when (seconds since the epoch), and why."""

    time: float
    why: str


@dataclass(frozen=True)
class Capture:
    """`capture/capture.json`."""

    subject: Literal["program", "script"]
    border: Literal["dynamo", "aot"] | None = None
    graphs: int = 0  # graphs that were recorded
    graph: str | None = None  # compile id of the one that is the program
    statements: int = 0
    verdict: Verdict | None = None  # of the program alone
    signature: Signature | None = None  # rebased on the program
    recipe: Recipe = field(default_factory=Recipe)
    fresh: bool = False  # it fails only in an interpreter that has compiled nothing before
    note: str = ""  # why there is no program, or what had to be left out


@dataclass(frozen=True)
class ReductionStep:
    """One accepted program: which pass found it, how large it is, after how many queries, and where it lies."""

    name: str
    statements: int
    queries: int
    file: str  # relative to `minify/`
    seconds: float = 0.0  # since the reduction began


@dataclass(frozen=True)
class RemovalTried:
    """One thing less than the result in words, and the outcome: ``pass``, ``other: …``; "" where no program is left."""

    what: str
    outcome: str = ""


@dataclass(frozen=True)
class TwinFound:
    """The nearest program that passes: the change in words, and as a unified diff of the two programs."""

    what: str
    diff: str
    file: str = "twin.py"  # relative to `minify/`


@dataclass(frozen=True)
class Reduction:
    """`minify/minify.json`."""

    statements_before: int
    statements_after: int
    queries: int
    seconds: float
    verified: bool  # failed with the signature in a fresh interpreter
    self_contained: bool  # needs no stored tensor values
    steps: tuple[ReductionStep, ...] = ()
    stopped: Literal["fixpoint", "deadline", "budget"] = "fixpoint"
    others: tuple[str, ...] = ()  # signatures of other failures met on the way
    minimal: bool = False  # every single removal was tried, and none fails alike
    removals: tuple[RemovalTried, ...] = ()
    twin: TwinFound | None = None
    repeats: int = 1  # runs of a program before it counted as not failing: more for a flaky failure
    note: str = ""  # how often a flaky failure was seen, and how sure the judgement on candidates is
    difference: Difference | None = None  # of a wrong result, from eager's
    failed: int = 0  # of `runs` of the captured program
    runs: int = 0


@dataclass(frozen=True)
class BundleResult:
    """`bundle.json`."""

    path: str
    level: Literal["program", "script"]
    verified: bool
    fails_with_signature: bool
    passes_in_eager: bool
    layer: Layer | None
    reason: str = ""  # why it is not verified, or not minimized
    files: tuple[str, ...] = ()
    flaky: str = ""  # how often it fails, in words; empty: in every run
    needs: tuple[str, ...] = ()  # what of this machine repro.py needs to fail, and does not hold
