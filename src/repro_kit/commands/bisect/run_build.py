"""Run a repro.py or a command on a build, to see whether it fails there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from repro_kit.builds.build_source import Ready
from repro_kit.bundle.repro.run_output import CANNOT_RUN, failure_in
from repro_kit.model.failure.classify import failure_from_signal, failure_from_timeout
from repro_kit.model.failure.failure import Status, Verdict
from repro_kit.runner.launch import Run, exit_name, launch
from repro_kit.runner.scratch import scratch
from repro_kit.runner.subject_start import private_caches
from repro_kit.session.strangers.repro_run import ProcessLimits, RunOfRepro, limits_of, run_repro
from repro_kit.session.strangers.untrusted import environment_for

TIMED_OUT = 124  # exit status of coreutils' `timeout`
_TAIL = 400_000  # characters that are kept of each output


class BuildOracle(Protocol):
    """Runs a program or a command on a build."""

    description: str  # "repro.py of train.repro.zip"

    def run(self, ready: Ready) -> RunOfRepro:
        """Run once on the build `ready`."""
        ...


class ReproOracle:
    """Runs a temporary copy of a `repro.py`, as another user would. A `repro.py` from a stranger has `limits`."""

    def __init__(self, description: str, directory: Path, timeout: float, limits: ProcessLimits | None = None) -> None:
        self.description = description
        self._limits = limits
        self._directory = directory
        self._timeout = timeout

    def run(self, ready: Ready) -> RunOfRepro:
        """Run `repro.py` once."""
        return run_repro(
            ready.python, self._directory, timeout=self._timeout, variables=ready.variables, limits=self._limits
        )


class CommandOracle:
    """Runs a command, and judges it by its exit status: 0 passes, 125 cannot run, 124 timed out, any other fails.

    The word ``python`` stands for the build's interpreter. The build's environment is active for other commands. With
    `untrusted` the command comes from a stranger: it gets few variables, a home of its own, and limits.
    """

    def __init__(
        self, description: str, argv: Sequence[str], *, cwd: Path, timeout: float, untrusted: bool = False
    ) -> None:
        self.description = description
        self._untrusted = untrusted
        self._argv = tuple(argv)
        self._cwd = cwd
        self.timeout = timeout

    def run(self, ready: Ready) -> RunOfRepro:
        """Run the command once, with empty compiler caches."""
        argv = [ready.python if word in ("python", "python3") else word for word in self._argv]
        if ready.cwd is not None:
            self._carry(ready.cwd)
        with scratch() as directory, private_caches(ready.python) as caches:
            out, err = directory / "stdout.txt", directory / "stderr.txt"
            limits = limits_of() if self._untrusted else None
            run = launch(
                argv,
                cwd=ready.cwd or self._cwd,
                env=self.environment(
                    {**self._variables(directory), "PYTHONFAULTHANDLER": "1", **caches, **ready.variables}, directory
                ),
                timeout=self.timeout,
                stdout=out,
                stderr=err,
                memory=limits.memory if limits else None,
                file_size=limits.file if limits else None,
            )
            output = "".join(path.read_text(encoding="utf-8", errors="replace")[-_TAIL:] for path in (out, err))
            return self.seen(run, output, directory)

    def _variables(self, directory: Path) -> dict[str, str]:
        if not self._untrusted:
            return dict(os.environ)
        (directory / "home").mkdir()
        return environment_for(os.environ, directory / "home")

    def environment(self, env: dict[str, str], directory: Path) -> dict[str, str]:
        """Return the environment variables of the run. `directory` exists until the run is judged."""
        return env

    def seen(self, run: Run, output: str, directory: Path) -> RunOfRepro:
        """Judge the run."""
        return read(run, output)

    def _carry(self, cwd: Path) -> None:
        """Copy files that the command names to `cwd` where they are missing: a test may be newer than a build."""
        for word in self._argv:
            source, target = self._cwd / word, cwd / word
            # Not Path.is_file: a word may be Python code that is too long for a file name.
            if not Path(word).is_absolute() and os.path.isfile(source) and not target.exists():  # noqa: PTH113
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


def read(run: Run, output: str) -> RunOfRepro:
    """Judge the run of a command by its exit status."""
    if run.ok:
        return RunOfRepro(Verdict(Status.PASS, seconds=run.seconds), output)
    if run.timed_out or run.exit_status == TIMED_OUT:
        failure = failure_from_timeout(text=output)
        return RunOfRepro(Verdict(Status.FAIL, failure, run.seconds, exit_name(run)), output, timed_out=True)
    if run.exit_status == CANNOT_RUN:
        return RunOfRepro(Verdict(Status.CANNOT_TELL, None, run.seconds, "it exits with 125"), output)
    signalled = failure_from_signal(run.signal, text=output) if run.signal else failure_in(output)
    return RunOfRepro(Verdict(Status.FAIL, signalled, run.seconds, exit_name(run)), output)
