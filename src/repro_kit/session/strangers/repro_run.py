"""Run a `repro.py` as a stranger would: a fresh interpreter, a scratch copy, empty caches, no repro-kit on its path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from repro_kit.bundle.repro.run_output import CANNOT_RUN, read_run
from repro_kit.bundle.repro.source_files import PLACE
from repro_kit.model.failure.failure import Status, Verdict
from repro_kit.model.failure.signature import Signature, Strength, signature_of
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.reduce.flaky import ALIKE, MEASURE, NO_RUNS, Tally
from repro_kit.runner.compiler import give_headers, give_probes
from repro_kit.runner.launch import exit_name, launch
from repro_kit.runner.scratch import Scratch
from repro_kit.session.strangers.runnable import REPRO, copy_runnable
from repro_kit.session.strangers.untrusted import environment_for

_MEMORY = 0.8  # of the machine's, that the code of a stranger may take
_OUTPUT = 400_000  # bytes of output that are read, from its end

_ALIKE_SLOW = 3  # of `ALIKE`, where the runs have taken longer than `_PATIENCE`
_PATIENCE = 60.0  # seconds
_TRIES = 3  # runs before what was not seen to fail counts as one that passes
_MEASURE_SLOW = 5  # of `MEASURE`
_MOST_EAGER = 20  # runs without torch.compile


#: Runs the script that it is given as ``python SCRIPT`` would, but for the script's directory, which is not on
#: `sys.path` (as by ``-P``, which Python 3.9 lacks): what lies beside a script would stand in for any module.
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
    """What the code of a stranger may take; it also gets few variables and a home of its own."""

    memory: int  # bytes
    file: int = 4 << 30  # bytes of one file that it writes


def limits_of(memory: float | None = None) -> ProcessLimits:
    """The limits of a stranger's code: `memory` in GiB, else most of the machine's."""
    return ProcessLimits(int(memory * 2**30 if memory else _MEMORY * psutil.virtual_memory().total))


@dataclass(frozen=True)
class RunOfRepro:
    """One run of `repro.py`: how it ended, and what it said."""

    verdict: Verdict
    output: str
    exit_status: int | None = None
    timed_out: bool = False
    outcome: RunOutcome | None = None  # against the failure that was looked for, where one was

    @property
    def same(self) -> bool:
        """Whether it failed with the signature that was looked for."""
        return self.outcome is RunOutcome.FAILS_ALIKE

    @property
    def summary(self) -> str:
        """Its failure in one line, or why there is none to tell of."""
        failure = self.verdict.failure
        return signature_of(failure).summary() if failure else self.verdict.note


@dataclass(frozen=True)
class Check:
    """Whether `repro.py` fails as it should, and passes without torch.compile."""

    runs: tuple[RunOfRepro, ...]
    eager: RunOfRepro  # the one that did not pass, where there is one
    reasons: tuple[str, ...] = field(default=())  # why it is not verified
    earlier: Tally = NO_RUNS  # runs of the same program or script by the stages before
    needs: tuple[str, ...] = ()  # what of this machine it needs to fail as expected, in words

    @property
    def same(self) -> int:
        """How many of the runs failed with the signature."""
        return sum(run.same for run in self.runs)

    @property
    def verified(self) -> bool:
        """Whether it was seen to fail with the signature, and to pass in eager."""
        return self.same > 0 and not self.reasons

    @property
    def passes_in_eager(self) -> bool:
        """Whether it passes without torch.compile."""
        return _passes(self.eager)

    @property
    def failing(self) -> RunOfRepro:
        """The run that failed as expected, else the last one."""
        return next((run for run in self.runs if run.same), self.runs[-1])

    @property
    def tally(self) -> Tally:
        """What the runs of `repro.py` say of how often it fails."""
        return Tally(self.same, len(self.runs))

    @property
    def flaky(self) -> bool:
        """Whether it failed as expected in some runs only, here or in the stages before."""
        return self.same > 0 and (self.tally + self.earlier).flaky

    @property
    def repeats(self) -> int:
        """Runs of `repro.py` that must all pass before the failure counts as gone."""
        return (self.tally if self.tally.flaky else self.tally + self.earlier).repeats

    @property
    def rate(self) -> str:
        """How often a flaky failure came, in words; empty for one that came every time."""
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
    on_tick: Callable[[str], None] = lambda text: None,
) -> Check:
    """Run `directory`/repro.py with and without torch.compile, as often as the flaky rule (`reduce/flaky.py`) asks.

    `timeout` in seconds, for one run. `earlier`: what the stages before saw of the same program or script.
    """
    runs: list[RunOfRepro] = []
    while len(runs) < _wanted(runs, earlier):
        on_tick(f"running repro.py, time {len(runs) + 1}")
        run = run_repro(python, directory, timeout=timeout)
        runs.append(replace(run, outcome=outcome_of(run.verdict, signature, Strength.REBASED)))
        if runs[-1].outcome is RunOutcome.CANNOT_TELL and not any(run.same for run in runs):
            break
    eager = _eager(python, directory, timeout, Check(tuple(runs), runs[-1], earlier=earlier), on_tick)
    return Check(tuple(runs), eager, tuple(_reasons(runs, eager)), earlier)


def _wanted(runs: Sequence[RunOfRepro], earlier: Tally) -> int:
    """How many runs it takes to say how often it fails, by what is known so far."""
    same = sum(run.same for run in runs)
    slow = sum(run.verdict.seconds for run in runs) > _PATIENCE
    if runs and not same:
        return max(_TRIES, earlier.repeats if earlier.flaky else 0)
    if same < len(runs) or earlier.flaky:
        return _MEASURE_SLOW if slow else MEASURE
    return max(1, (_ALIKE_SLOW if slow else ALIKE) - earlier.runs)


def _eager(python: str, directory: Path, timeout: float, compiled: Check, on_tick: Callable[[str], None]) -> RunOfRepro:
    """A run without torch.compile: the first that does not pass, of as many as a flaky failure needs."""
    for number in range(min(compiled.repeats, _MOST_EAGER) if compiled.flaky else 1):
        on_tick(f"running repro.py without torch.compile, time {number + 1}")
        run = run_repro(python, directory, timeout=timeout, compiled=False)
        if not _passes(run):
            break
    return run


def _passes(eager: RunOfRepro) -> bool:
    return eager.verdict.status is Status.PASS or _needs_compiler(eager.verdict)


def run_repro(
    python: str,
    directory: Path,
    *,
    timeout: float,
    compiled: bool = True,
    variables: Mapping[str, str] | None = None,
    limits: ProcessLimits | None = None,
    beside: Path | None = None,
) -> RunOfRepro:
    """Run a copy of `directory`/repro.py once, in an empty home and with the variables that a stranger would have.

    `compiled` off: under ``TORCH_COMPILE_DISABLE=1``. `variables` are set beside. With `limits` it is a stranger's.
    `beside`: a directory whose files lie where it starts.
    """
    settled = {**(variables or {}), **({} if compiled else {"TORCH_COMPILE_DISABLE": "1"})}
    with scratch(directory) as work_directory:
        give_probes(python, work_directory / "inductor")
        give_headers(work_directory / "tmp")
        if beside is not None:
            _link(beside, work_directory / "cwd")
            _link(beside, work_directory / "bundle" / PLACE)
        out, err = work_directory / "stdout.txt", work_directory / "stderr.txt"
        run = launch(
            [python, "-c", _AS_SCRIPT, str(work_directory / "bundle" / REPRO)],
            cwd=work_directory / "cwd",
            env=_environment(work_directory) | settled,
            timeout=timeout,
            stdout=out,
            stderr=err,
            memory=limits.memory if limits else None,
            file_size=limits.file if limits else None,
        )
        output = _read(out) + _read(err)
        output = output.replace(str(work_directory / "bundle") + os.sep, "").replace(str(work_directory), "<scratch>")
    verdict = read_run(run.exit_status, output, exit_name(run), run.seconds)
    return RunOfRepro(verdict, output, run.exit_status, run.timed_out)


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """A new directory with what runs of `directory` in ``bundle``, and an empty one to start in; removed afterwards."""
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
    """What every run of a `repro.py` gets: few variables, a home and a temporary directory that are empty."""
    return {
        **environment_for(os.environ, work_directory / "home"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(work_directory / "inductor"),
        "TRITON_CACHE_DIR": str(work_directory / "triton"),
        "TMPDIR": str(work_directory / "tmp"),
    }


def _link(source: Path, target: Path) -> None:
    """Let `target`, where it is a directory, show what it lacks of directory `source`."""
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
    """Whether eager fails only under the variable: torch's own eager code calls torch.compile (flex_attention, scan).

    A program's `repro.py` has run its graph in eager before, or it would not have failed in the compiled run.
    """
    return eager.note.startswith("eager fails here")


def _reasons(runs: Sequence[RunOfRepro], eager: RunOfRepro) -> Iterator[str]:
    last = runs[-1]
    if not any(run.same for run in runs):
        match last.outcome:
            case RunOutcome.PASSES:
                yield f"repro.py passes in {len(runs)} of {len(runs)} runs"
            case RunOutcome.CANNOT_TELL if last.exit_status == CANNOT_RUN:
                yield f"repro.py cannot run alone: {last.verdict.note}"
            case RunOutcome.CANNOT_TELL:
                yield f"repro.py does not end as it should: {last.verdict.note}"
            case _:
                yield f"repro.py fails, but differently ({last.summary})"
    if not _passes(eager):
        yield f"repro.py does not pass under TORCH_COMPILE_DISABLE=1 ({eager.summary})"
