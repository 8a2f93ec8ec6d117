"""Run a `repro.py` as a stranger would: in a fresh interpreter, from a copy, with empty caches, without repro-kit."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import psutil

from repro_kit.bundle.repro.check_program import CANNOT_RUN, read_run
from repro_kit.bundle.repro.source_files import PLACE
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.signature import RunOutcome, Signature, Strength, outcome_of, signature_of
from repro_kit.reduce.flaky import MEASURE, NO_RUNS, RUNS_BEFORE_DETERMINISTIC, Tally
from repro_kit.repro_run.untrusted import copy_runnable, entry_of, environment_for
from repro_kit.runner.compiler import give_headers, give_probes
from repro_kit.runner.places import Scratch
from repro_kit.runner.supervised import EndedEarly, exit_name, launch

START_MARGIN = 60.0  # seconds that an interpreter with torch may take to start

_MEMORY = 0.8  # share of the machine's memory that untrusted code may use
_OUTPUT = 400_000  # bytes that are read from the end of the output

_RUNS_WHERE_SLOW = 3  # in place of `RUNS_BEFORE_DETERMINISTIC`, if the runs have taken longer than `_PATIENCE`
_PATIENCE = 60.0  # seconds
_TRIES = 3  # runs that must pass before the program counts as passing
_MEASURE_SLOW = 5  # in place of `MEASURE`, likewise
_MOST_EAGER = 20  # most runs without torch.compile


#: Runs a script like ``python SCRIPT``, but without the script's directory on `sys.path` (like ``-P``, which Python 3.9
#: lacks): a file in that directory could otherwise replace any module.
_AS_SCRIPT = """
def _code():
    import sys
    if sys.path[:1] == [""]:
        del sys.path[0]
    del sys.argv[0]
    globals()["__file__"] = sys.argv[0]
    def hook(kind, error, trace):
        own = trace and trace.tb_next
        sys.__excepthook__(kind, error.with_traceback(own), own)
    sys.excepthook = hook
    with open(__file__, "rb") as file:
        return compile(file.read(), __file__, "exec", dont_inherit=True)
exec([_code(), globals().pop("_code")][0])
"""


@dataclass(frozen=True)
class ProcessLimits:
    """Limits for untrusted code, which also gets few variables and its own home directory."""

    memory: int  # bytes
    file: int = 4 << 30  # bytes of one file that the code writes


def limits_of(memory: float | None = None) -> ProcessLimits:
    """The limits for untrusted code: `memory` in GiB, by default most of the machine's memory."""
    return ProcessLimits(int(memory * 2**30 if memory else _MEMORY * psutil.virtual_memory().total))


@dataclass(frozen=True)
class ReproRun:
    """One run of `repro.py`: how it ended, and its output."""

    verdict: Verdict
    output: str
    exit_status: int | None = None
    timed_out: bool = False
    outcome: RunOutcome | None = None  # compared with the expected failure; None without one

    @property
    def same(self) -> bool:
        """Whether the run failed with the expected signature."""
        return self.outcome is RunOutcome.FAILS_ALIKE

    @property
    def summary(self) -> str:
        """The failure of the run in one line, or the note of its verdict."""
        failure = self.verdict.failure
        return signature_of(failure).summary() if failure else self.verdict.note


@dataclass(frozen=True)
class Check:
    """The result of a check that `repro.py` fails as expected, and passes without torch.compile."""

    runs: tuple[ReproRun, ...]
    eager: ReproRun  # the run in eager that did not pass, if there is one; else the last one
    reasons: tuple[str, ...] = field(default=())  # why `repro.py` is not verified
    earlier: Tally = NO_RUNS  # runs of the same program or script by earlier stages
    needs: tuple[str, ...] = ()  # what it needs from this machine to fail as expected, in words

    @property
    def same(self) -> int:
        """How many runs failed with the signature."""
        return sum(run.same for run in self.runs)

    @property
    def verified(self) -> bool:
        """Whether `repro.py` failed with the signature, and passed in eager."""
        return self.same > 0 and not self.reasons

    @property
    def passes_in_eager(self) -> bool:
        """Whether `repro.py` passes without torch.compile."""
        return _passes(self.eager)

    @property
    def failing(self) -> ReproRun:
        """The first run that failed as expected, else the last run."""
        return next((run for run in self.runs if run.same), self.runs[-1])

    @property
    def tally(self) -> Tally:
        """How many runs of `repro.py` there were, and how many failed as expected."""
        return Tally(self.same, len(self.runs))

    @property
    def flaky(self) -> bool:
        """Whether `repro.py` failed as expected in some runs only, here or in earlier stages."""
        return self.same > 0 and (self.tally + self.earlier).flaky

    @property
    def repeats(self) -> int:
        """Runs of `repro.py` that must all pass before the failure counts as gone."""
        return (self.tally if self.tally.flaky else self.tally + self.earlier).repeats

    @property
    def rate(self) -> str:
        """How often a flaky failure occurred, in words; empty for one that occurred every time."""
        if not self.flaky:
            return ""
        words = f"it failed as expected in {self.same} of {len(self.runs)} runs"
        before = f", and before in {self.earlier.failed} of {self.earlier.runs}" if self.earlier.flaky else ""
        return words + before


def check_repro(
    python: str,
    directory: Path,
    signature: Signature,
    *,
    timeout: float,
    earlier: Tally = NO_RUNS,
    at_once: bool = False,
    in_eager: bool = False,
    eager_runs: int = 1,
    on_tick: Callable[[str], None] = lambda text: None,
) -> Check:
    """Run `directory`/repro.py with and without torch.compile, as often as `reduce/flaky.py` asks for.

    `timeout`: seconds for one run. `earlier`: runs of the same program or script by earlier stages. `at_once`: the
    first run without torch.compile is made in parallel with the others. `in_eager`: the failure needs no compiler, so
    this run must fail in the same way, not pass. `eager_runs`: how many runs without torch.compile must pass, at least.
    """
    with _begun_in_eager(python, directory, timeout) if at_once else nullcontext() as begun:
        runs: list[ReproRun] = []
        while len(runs) < _wanted(runs, earlier):
            on_tick(f"running repro.py, time {len(runs) + 1}")
            run = run_repro(python, directory, timeout=timeout)
            runs.append(replace(run, outcome=outcome_of(run.verdict, signature, Strength.REBASED)))
            if runs[-1].outcome is RunOutcome.CANNOT_TELL and not any(run.same for run in runs):
                break
        compiled = Check(tuple(runs), runs[-1], earlier=earlier)
        wanted = max(eager_runs, min(compiled.repeats, _MOST_EAGER) if compiled.flaky else 1)
        eager = _eager(python, directory, timeout, wanted, on_tick, begun)
    eager = replace(eager, outcome=outcome_of(eager.verdict, signature, Strength.REBASED))
    return Check(tuple(runs), eager, tuple(_reasons(runs, eager, in_eager=in_eager)), earlier)


@contextmanager
def _begun_in_eager(python: str, directory: Path, timeout: float) -> Iterator[Callable[[], ReproRun]]:
    """Begin a run without torch.compile, and yield a function that waits for it. The end of the block ends the run."""
    is_left = Event()

    def end_early(seconds: float) -> None:
        if is_left.is_set():
            raise EndedEarly(seconds)

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(run_repro, python, directory, timeout=timeout, compiled=False, on_tick=end_early)
        try:
            yield run.result
        finally:
            is_left.set()


def _wanted(runs: Sequence[ReproRun], earlier: Tally) -> int:
    """How many runs it takes to know how often `repro.py` fails, given the runs so far."""
    same = sum(run.same for run in runs)
    slow = sum(run.verdict.seconds for run in runs) > _PATIENCE
    if runs and not same:
        return max(_TRIES, earlier.repeats if earlier.flaky else 0)
    if same < len(runs) or earlier.flaky:
        return _MEASURE_SLOW if slow else MEASURE
    return max(1, (_RUNS_WHERE_SLOW if slow else RUNS_BEFORE_DETERMINISTIC) - earlier.runs)


def _eager(
    python: str,
    directory: Path,
    timeout: float,
    wanted: int,
    on_tick: Callable[[str], None],
    begun: Callable[[], ReproRun] | None,
) -> ReproRun:
    """Run without torch.compile until a run does not pass, at most `wanted` times; the last run.

    `begun` waits for the first of these runs, if that run has begun.
    """
    for number in range(wanted):
        on_tick(f"running repro.py without torch.compile, time {number + 1}")
        if begun is not None and number == 0:
            run = begun()
        else:
            run = run_repro(python, directory, timeout=timeout, compiled=False)
        if not _passes(run):
            break
    return run


def _passes(eager: ReproRun) -> bool:
    return eager.verdict.status is Status.PASS or _needs_compiler(eager.verdict)


def run_repro(
    python: str,
    directory: Path,
    *,
    timeout: float,
    compiled: bool = True,
    variables: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    limits: ProcessLimits | None = None,
    beside: Path | None = None,
    on_tick: Callable[[float], None] | None = None,
) -> ReproRun:
    """Run a copy of `directory`/check.py once, with an empty home and the variables that a stranger would have.

    It runs `repro.py`, and says how that ended. A bundle of an earlier version has none; its `repro.py` does both.

    `compiled`: if False, run under ``TORCH_COMPILE_DISABLE=1``. `variables`: more variables to set; `without`: names of
    variables to leave out. `limits`: for untrusted code. `beside`: a directory whose files appear in the working
    directory. `on_tick`: as in `launch`.
    """
    settled = {**(variables or {}), **({} if compiled else {"TORCH_COMPILE_DISABLE": "1"})}
    with _strangers_directory(directory) as work_directory:
        give_probes(python, work_directory / "inductor")
        give_headers(work_directory / "tmp")
        if beside is not None:
            _link(beside, work_directory / "cwd")
            _link(beside, work_directory / "bundle" / PLACE)
        bundle = work_directory / "bundle"
        out, err = work_directory / "stdout.txt", work_directory / "stderr.txt"
        given = _environment(work_directory) | settled
        run = launch(
            [python, "-c", _AS_SCRIPT, str(bundle / entry_of(bundle))],
            cwd=work_directory / "cwd",
            env={name: value for name, value in given.items() if name not in without},
            timeout=timeout,
            stdout=out,
            stderr=err,
            on_tick=on_tick,
            memory=limits.memory if limits else None,
            file_size=limits.file if limits else None,
        )
        output = _read(out) + _read(err)
        output = output.replace(str(work_directory / "bundle") + os.sep, "").replace(str(work_directory), "<scratch>")
    verdict = read_run(run.exit_status, output, exit_name(run), run.seconds)
    return ReproRun(verdict, output, run.exit_status, run.timed_out)


@contextmanager
def _strangers_directory(directory: Path) -> Iterator[Path]:
    """A temporary directory: ``bundle`` has the files of `directory` that run, ``cwd`` is empty to start in."""
    scratch_directory = Scratch()
    work_directory = scratch_directory.path
    try:
        copy_runnable(directory, work_directory / "bundle")
        for name in ("cwd", "home", "tmp"):
            (work_directory / name).mkdir()
        yield work_directory
    finally:
        scratch_directory.remove()


def _environment(work_directory: Path) -> dict[str, str]:
    """The variables of every run of a `repro.py`; its home and temporary directory are empty."""
    return {
        **environment_for(os.environ, work_directory / "home"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(work_directory / "inductor"),
        "TRITON_CACHE_DIR": str(work_directory / "triton"),
        "TMPDIR": str(work_directory / "tmp"),
    }


def _link(source: Path, target: Path) -> None:
    """Link the files of directory `source` that `target` lacks into it, if `target` is a directory."""
    if not target.is_dir():
        return
    for entry in source.iterdir():
        existing = target / entry.name
        if not existing.exists():
            existing.symlink_to(entry)
        elif entry.is_dir() and not existing.is_symlink():
            _link(entry, existing)


def _read(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _OUTPUT))
        text = file.read().decode("utf-8", "replace")
    return text if not text or text.endswith("\n") else text + "\n"


def _needs_compiler(eager: Verdict) -> bool:
    """Whether eager fails only because torch's own eager code calls torch.compile (flex_attention, scan).

    A `repro.py` with a graph runs the graph in eager first, so eager worked in the compiled run that failed.
    """
    return eager.note.startswith("eager fails here")


def _reasons(runs: Sequence[ReproRun], eager: ReproRun, *, in_eager: bool) -> Iterator[str]:
    last = runs[-1]
    if not any(run.same for run in runs):
        match last.outcome:
            case RunOutcome.PASSES:
                yield f"repro.py passes in {len(runs)} of {len(runs)} runs"
            case RunOutcome.CANNOT_TELL if last.exit_status == CANNOT_RUN:
                yield f"repro.py cannot run alone: {last.verdict.note}"
            case RunOutcome.CANNOT_TELL:
                yield f"repro.py ended in an unexpected way: {last.verdict.note}"
            case _:
                yield f"repro.py fails, but differently ({last.summary})"
    if in_eager and not eager.same:
        yield f"repro.py does not fail in the same way under TORCH_COMPILE_DISABLE=1 ({eager.summary})"
    if not in_eager and not _passes(eager):
        yield f"repro.py does not pass under TORCH_COMPILE_DISABLE=1 ({eager.summary})"
