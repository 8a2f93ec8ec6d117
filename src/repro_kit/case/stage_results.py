"""The results of the stages in a case, as typed data: one class and one handle for each file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from repro_kit.case.case import ResultFile
from repro_kit.diagnosis.answers import Answers, TriedVariant
from repro_kit.diagnosis.cell import Ablation
from repro_kit.failure.differences import Rounding
from repro_kit.failure.exception_origin import Nature
from repro_kit.failure.failure import Difference, Failure, Layer, Status, Verdict
from repro_kit.failure.moved_to_cpu import MovedToCpu
from repro_kit.failure.signature import Signature
from repro_kit.failure.symptom import Symptom
from repro_kit.recipe import Recipe


@dataclass(frozen=True)
class GitState:
    """The user's git repository. `remotes` are URLs without credentials."""

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
    """An `fx_graph_runnable` that was extracted from the trace."""

    compile_id: str  # "0/1", in tlparse's form
    path: str  # relative to the case
    rank: int | None = None


@dataclass(frozen=True)
class ObservedFailure:
    """One distinct failure of the observed run.

    `source`: what shows it. ``trace`` and ``log`` show what the program caught: torch's trace a failed compile, and the
    program's own output a traceback that ends in compiled code.
    """

    failure: Failure
    signature: Signature
    count: int = 1
    source: Literal["exception", "trace", "log", "output", "exit", "measured"] = "exception"
    rank: int | None = None
    nature: Nature = Nature.OPEN


@dataclass(frozen=True)
class Observation:
    """`observe/run.json`."""

    argv: tuple[str, ...]
    exit_status: int | None  # None when a signal or the time-out ended the run
    signal: str | None
    timed_out: bool
    seconds: float
    peak_memory: int  # bytes, whole process tree
    python: str | None  # interpreter in which torch was seen
    torch: str | None
    failures: tuple[ObservedFailure, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    graphs: int = 0  # number of compile ids in the trace
    eager: Status | None = None  # the same command's verdict under TORCH_COMPILE_DISABLE=1; None: not run
    warnings: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()  # a line for each rank of a distributed run
    settled: bool = True  # False: whether the compiler is to blame was left to a graph that fails alone, or to `settle`
    recorded: bool = False  # the graphs were recorded in this run, below `observe/probe`
    compared: int = 0  # compiled calls that were held against eager in this run, and agreed with it
    users_cache: bool = False  # the subject was seen to fail with a copy of the user's compiler cache alone

    @property
    def in_eager(self) -> bool:
        """Whether the subject fails alike without torch.compile, so that no compiler is to blame."""
        return self.eager is Status.FAIL


@dataclass(frozen=True)
class WrongStatement:
    """A statement of the captured graph at which the compiled result begins to differ from eager's.

    `backward`: the gradients that it gives differ, and not the value that it makes.
    """

    name: str  # that the statement assigns
    statement: str
    operator: str  # its bare name
    backward: bool = False
    line: str = ""  # of the user's code, "/home/me/model.py:12"


@dataclass(frozen=True)
class Capture:
    """`capture/capture.json`."""

    subject: Literal["program", "script"]
    border: Literal["dynamo", "aot"] | None = None
    graphs: int = 0  # graphs that were recorded
    graph: str | None = None  # compile id of the graph that became the program
    statements: int = 0
    verdict: Verdict | None = None  # of the program alone
    signature: Signature | None = None  # of the program's failure, which may differ in form from the script's
    recipe: Recipe = field(default_factory=Recipe)
    fresh: bool = False  # the program fails only in an interpreter that has compiled nothing before
    wrong: tuple[WrongStatement, ...] = ()  # of a wrong result; a hint, since to look at values changes the fusions
    of_backward: bool = False  # the program is what Inductor compiled for a backward: its results are gradients
    harmless: tuple[str, ...] = ()  # names of statements that are wrong, too, although no result shows it
    own_check: str = ""  # how the script's own check was seen to depend on the graph; "" if nothing was checked
    note: str = ""  # why there is no program, or what was left out
    moved_to_cpu: MovedToCpu | None = None  # the program was recorded on devices that this machine lacks


@dataclass(frozen=True)
class ReductionStep:
    """One accepted program: the pass that proposed it, its size, the queries made so far, and its file."""

    name: str
    statements: int
    queries: int
    file: str  # relative to `minify/`
    seconds: float = 0.0  # since the reduction began


@dataclass(frozen=True)
class TwinFound:
    """The nearest variant that passes: the change in words, and as a unified diff of the two programs."""

    what: str
    diff: str
    file: str = "twin.py"  # relative to `minify/`


@dataclass(frozen=True)
class NumberFound:
    """The number that decides: with `fails` in its place the result fails alike, with `passes` it passes."""

    what: str  # "argument 2 of `avg_pool2d`", "dimension 0 of `x`"
    fails: int | float
    passes: int | float
    words: str  # "fails from 9 up, passes with 8 as dimension 0 of `x`"


@dataclass(frozen=True)
class Reduction:
    """`minify/minify.json`."""

    statements_before: int
    statements_after: int
    queries: int
    seconds: float
    verified: bool  # the result failed with the signature in a fresh interpreter
    self_contained: bool  # needs no stored tensor values
    steps: tuple[ReductionStep, ...] = ()
    stopped: Literal["fixpoint", "deadline", "budget"] = "fixpoint"
    others: tuple[str, ...] = ()  # signatures of other failures that the search met
    minimal: bool = False  # 1-minimal: every single removal was tried, and none fails alike
    removals: tuple[TriedVariant, ...] = ()  # each part: ``pass``, ``other: …``; "" if no program is left
    variants: tuple[TriedVariant, ...] = ()  # of the result, with another size, dtype or setting
    twin: TwinFound | None = None
    number: NumberFound | None = None  # that `twin` changes
    repeats: int = 1  # runs of a program before it counted as passing; more than one for a flaky failure
    note: str = ""  # the rate of a flaky failure, and how reliable the reduction is
    difference: Difference | None = None  # between the compiled result and eager's
    growth: str = ""  # of the result's compile time, in words, if that is the failure
    failed: int = 0  # of `runs` runs of the captured program
    runs: int = 0
    ranks: int = 1  # processes that run the reduced script, as torchrun starts them
    fewer: str = ""  # why these are not all ranks of the user's run, in words
    fresh: bool = False  # the script fails only in an interpreter that has compiled nothing before


@dataclass(frozen=True)
class BundleResult:
    """`bundle.json`."""

    path: str
    level: Literal["program", "script"]
    verified: bool
    fails_with_signature: bool
    passes_in_eager: bool
    layer: Layer | None
    reason: str = ""  # why the bundle is not verified, or not minimized
    files: tuple[str, ...] = ()
    flaky: str = ""  # how often repro.py fails, in words; "" when it always fails
    needs: tuple[str, ...] = ()  # what repro.py needs of this machine to fail, and does not contain
    dropped: tuple[str, ...] = ()  # claims of earlier stages that were not shown to hold for repro.py, with reasons
    lacking: int = 0  # runs that a cell of the ablation must pass, if it was left out since cells ran less often
    answers: Answers = field(default_factory=Answers)  # as `story.json` has them
    title: str = ""  # of the issue, without the layer


@dataclass(frozen=True)
class BuildsTried:
    """`releases.json`: the builds of the last `verify --on` or `--releases` of the case, oldest first."""

    signature: Signature
    builds: tuple[TriedVariant, ...]


ENVIRONMENT = ResultFile("observe", "env.json", Environment)
OBSERVATION = ResultFile("observe", "observe/run.json", Observation)
FAILURE = ResultFile("observe", "observe/failure.json", ObservedFailure)
SYMPTOM = ResultFile("observe", "observe/symptom.json", Symptom)
ROUNDING = ResultFile("observe", "observe/rounding.json", Rounding)
CAPTURE = ResultFile("capture", "capture/capture.json", Capture)
ABLATION = ResultFile("ablate", "ablation.json", Ablation)
REDUCTION = ResultFile("minify", "minify/minify.json", Reduction)
SOURCE_REDUCTION = ResultFile("minify", "minify/source/minify.json", Reduction)
REDUCED_FAILURE = ResultFile("minify", "minify/failure.json", ObservedFailure)  # of the reduced program
SOURCE_FAILURE = ResultFile("minify", "minify/source/failure.json", ObservedFailure)  # of the reduced script
BUNDLE = ResultFile("bundle", "bundle.json", BundleResult)
RELEASES = ResultFile("bundle", "releases.json", BuildsTried)  # of `verify --on`
