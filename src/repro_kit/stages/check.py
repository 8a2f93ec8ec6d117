"""Run a `repro.py` as a stranger would: a fresh interpreter, a scratch copy, empty caches, no repro-kit on its path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from repro_kit.bundle.judge import Ending, Reading, read_run
from repro_kit.model.signature import Signature, Strength
from repro_kit.runner.compiler import give_headers, give_probes
from repro_kit.runner.launch import PROBE, exit_name, launch
from repro_kit.runner.scratch import Scratch
from repro_kit.stages.foreign import environment_for
from repro_kit.stages.runnable import REPRO, copy_runnable

#: Variables that would make this run another one than a stranger's.
_FOREIGN = (
    "TORCH",
    "PYTORCH",
    "INDUCTOR",
    "DYNAMO",
    "AOT",
    "TRITON",
    "FUNCTORCH",
    "REPRO_PROBE",
    "PYTHON",
    "REPRO_KIT",
)
_KEPT = ("TORCH_CUDA_ARCH_LIST", "TRITON_LIBCUDA_PATH", "PYTHONPATH", "PYTHONUSERBASE")
_PACKAGE = Path(__file__).resolve().parent.parent.parent  # what makes `import repro_kit` work

#: Of a run that did not fail as expected at first, this many more tell whether it is flaky.
_TRIES = 3
_MEMORY = 0.8  # of the machine's, that the code of a stranger may take
_OUTPUT = 400_000  # bytes of output that are read, from its end


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
class Limits:
    """What the code of a stranger may take; it also gets few variables and a home of its own."""

    memory: int  # bytes
    file: int = 4 << 30  # bytes of one file that it writes


def limits_of(memory: float | None = None) -> Limits:
    """The limits of a stranger's code: `memory` in GiB, else most of the machine's."""
    return Limits(int(memory * 2**30 if memory else _MEMORY * psutil.virtual_memory().total))


@dataclass(frozen=True)
class RunOfRepro:
    """One run of `repro.py`: what it said, and how long it took."""

    reading: Reading
    output: str
    seconds: float
    same: bool = False  # it failed with the signature that was looked for
    timed_out: bool = False


@dataclass(frozen=True)
class Check:
    """Whether `repro.py` fails as it should, and passes without torch.compile."""

    runs: tuple[RunOfRepro, ...]
    eager: RunOfRepro
    reasons: tuple[str, ...] = field(default=())  # why it is not verified

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
        return self.eager.reading.ending is Ending.PASSES or _needs_compiler(self.eager.reading)

    @property
    def failing(self) -> RunOfRepro:
        """The run that failed as expected, else the last one."""
        return next((run for run in self.runs if run.same), self.runs[-1])

    @property
    def flaky(self) -> bool:
        """Whether it failed as expected in some runs only."""
        return 0 < self.same < len(self.runs)


def check_repro(
    python: str,
    directory: Path,
    signature: Signature,
    *,
    timeout: float,
    project: Path | None = None,
    tries: int = 1,
    on_tick: Callable[[str], None] = lambda text: None,
) -> Check:
    """Run `directory`/repro.py with and without torch.compile; up to three times where it does not fail as expected.

    `timeout` in seconds, for one run. `project`: the user's directory, which must not be on the path. `tries`: runs of
    a flaky failure before it counts as absent, where these are more.
    """
    runs: list[RunOfRepro] = []
    while not runs or _undecided(runs, tries):
        on_tick(f"running repro.py, time {len(runs) + 1}")
        one = run_repro(python, directory, timeout=timeout, project=project)
        runs.append(replace(one, same=is_same(one.reading, signature, Strength.REBASED)))
        if one.reading.ending in (Ending.CANNOT_RUN, Ending.BROKEN):
            break
    on_tick("running repro.py without torch.compile")
    eager = run_repro(python, directory, timeout=timeout, project=project, compiled=False)
    return Check(tuple(runs), eager, tuple(_reasons(runs, eager)))


def _undecided(runs: list[RunOfRepro], tries: int) -> bool:
    same = sum(run.same for run in runs)
    return same < len(runs) and len(runs) < (_TRIES if same else max(_TRIES, tries))


def is_same(reading: Reading, signature: Signature, strength: Strength) -> bool:
    """Whether a run failed, and with `signature`."""
    found = reading.signature
    return reading.ending is Ending.FAILS and found is not None and signature.matches(found, strength)


def run_repro(
    python: str,
    directory: Path,
    *,
    timeout: float,
    project: Path | None = None,
    compiled: bool = True,
    variables: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> RunOfRepro:
    """Run a copy of `directory`/repro.py once, with `variables`; `compiled` off: under ``TORCH_COMPILE_DISABLE=1``.

    With `limits` it is a stranger's.
    """
    settled = {**(variables or {}), **({} if compiled else {"TORCH_COMPILE_DISABLE": "1"})}
    with scratch(directory) as place:
        give_probes(python, place / "inductor")
        give_headers(place / "tmp")
        out, err = place / "stdout.txt", place / "stderr.txt"
        run = launch(
            [python, "-c", _AS_SCRIPT, str(place / "bundle" / REPRO)],
            cwd=place / "cwd",
            env=_environment(environment_for(os.environ, place / "home") if limits else os.environ, place, project)
            | settled,
            timeout=timeout,
            stdout=out,
            stderr=err,
            memory=limits.memory if limits else None,
            file_size=limits.file if limits else None,
        )
        output = _read(out) + _read(err)
        output = output.replace(str(place / "bundle") + os.sep, "").replace(str(place), "<scratch>")
    return RunOfRepro(read_run(run.exit_status, output, exit_name(run)), output, run.seconds, timed_out=run.timed_out)


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """A new directory with what runs of `directory` in ``bundle``, and an empty one to start in; removed afterwards."""
    made = Scratch()
    place = made.path
    try:
        copy_runnable(directory, place / "bundle")
        for name in ("cwd", "home", "tmp"):
            (place / name).mkdir()
        yield place
    finally:
        made.remove()


def _environment(env: Mapping[str, str], place: Path, project: Path | None) -> dict[str, str]:
    kept = {name: value for name, value in env.items() if name in _KEPT or not name.startswith(_FOREIGN)}
    path = [entry for entry in kept.pop("PYTHONPATH", "").split(os.pathsep) if entry and _is_strange(entry, project)]
    return {
        **kept,
        **({"PYTHONPATH": os.pathsep.join(path)} if path else {}),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(place / "inductor"),
        "TRITON_CACHE_DIR": str(place / "triton"),
        "TMPDIR": str(place / "tmp"),
    }


def _is_strange(entry: str, project: Path | None) -> bool:
    """Whether an entry of PYTHONPATH is neither repro-kit's nor the user's project."""
    path = Path(entry).resolve()
    if path in (_PACKAGE, PROBE.resolve()):
        return False
    return project is None or not path.is_relative_to(project.resolve())


def _read(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _OUTPUT))
        text = file.read().decode("utf-8", "replace")
    return text if not text or text.endswith("\n") else text + "\n"


def _needs_compiler(eager: Reading) -> bool:
    """Whether eager fails only under the variable: torch's own eager code calls torch.compile (flex_attention, scan).

    A program's `repro.py` has run its graph in eager before, or it would not have failed in the compiled run.
    """
    return eager.reason.startswith("eager fails here")


def _reasons(runs: list[RunOfRepro], eager: RunOfRepro) -> Iterator[str]:
    last = runs[-1].reading
    if not any(run.same for run in runs):
        match last.ending:
            case Ending.FAILS:
                found = last.signature
                yield f"repro.py fails, but differently ({found.summary() if found else last.reason})"
            case Ending.PASSES:
                yield f"repro.py passes in {len(runs)} of {len(runs)} runs"
            case Ending.CANNOT_RUN:
                yield f"repro.py cannot run alone: {last.reason}"
            case Ending.BROKEN:
                yield f"repro.py does not end as it should: {last.reason}"
    if eager.reading.ending is not Ending.PASSES and not _needs_compiler(eager.reading):
        found = eager.reading.signature
        how = found.summary() if found else eager.reading.reason
        yield f"repro.py does not pass under TORCH_COMPILE_DISABLE=1 ({how})"
