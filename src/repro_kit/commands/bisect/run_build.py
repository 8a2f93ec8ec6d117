"""Run a repro.py or a command on a build, to see whether it fails there, or to measure it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from repro_kit.builds.build_source import Ready, UnusableError
from repro_kit.bundle.repro.run_output import CANNOT_RUN, failure_in
from repro_kit.model.failure.classify import failure_from_signal, failure_from_timeout
from repro_kit.model.failure.failure import Status, Verdict
from repro_kit.model.measure.symptom import Symptom
from repro_kit.runner.launch import Run, exit_name, launch
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.scratch import scratch
from repro_kit.runner.subject_start import private_caches, probe_environment
from repro_kit.session.strangers.repro_run import ProcessLimits, RunOfRepro, limits_of, run_repro
from repro_kit.session.strangers.untrusted import environment_for
from repro_kit.session.verdicts.symptoms import of_run, probes
from repro_kit.trace import summarise

TIMED_OUT = 124  # exit status of coreutils' `timeout`
_TAIL = 400_000  # characters that are kept of each output


class BuildOracle(Protocol):
    """Runs a program or a command on a build."""

    def run(self, ready: Ready) -> RunOfRepro:
        """Run once on the build `ready`."""
        ...


@dataclass(frozen=True)
class ReproOracle:
    """Runs a temporary copy of a `repro.py`, as another user would. A `repro.py` from a stranger has `limits`."""

    directory: Path
    timeout: float
    limits: ProcessLimits | None = None

    def run(self, ready: Ready) -> RunOfRepro:
        """Run `repro.py` once."""
        return run_repro(
            ready.python, self.directory, timeout=self.timeout, variables=ready.variables, limits=self.limits
        )


@dataclass(frozen=True)
class CommandOracle:
    """Runs a command, and judges it by its exit status: 0 passes, 125 cannot run, 124 timed out, any other fails.

    The word ``python`` is replaced by the build's interpreter. The build's environment is active for other commands.
    With `untrusted` the command is a stranger's: it gets few variables, a separate home, and limits. With `symptom`,
    a command that succeeds is judged by a measurement.
    """

    argv: tuple[str, ...]
    cwd: Path
    timeout: float
    untrusted: bool = False
    symptom: Symptom | None = None

    def run(self, ready: Ready) -> RunOfRepro:
        """Run the command once, with empty compiler caches."""
        argv = [ready.python if word in ("python", "python3") else word for word in self.argv]
        if ready.cwd is not None:
            self._carry(ready.cwd)
        with scratch() as directory, private_caches(ready.python) as caches:
            out, err = directory / "stdout.txt", directory / "stderr.txt"
            limits = limits_of() if self.untrusted else None
            run = launch(
                argv,
                cwd=ready.cwd or self.cwd,
                env=self._environment({"PYTHONFAULTHANDLER": "1", **caches, **ready.variables}, directory),
                timeout=self.timeout,
                stdout=out,
                stderr=err,
                memory=limits.memory if limits else None,
                file_size=limits.file if limits else None,
            )
            output = "".join(path.read_text(encoding="utf-8", errors="replace")[-_TAIL:] for path in (out, err))
            if self.symptom is None or not run.ok:
                return read(run, output)
            found, trace = read_findings(directory / "probe"), summarise(directory / "trace")
            return RunOfRepro(of_run(self.symptom, run, found, trace), output)

    def measure(self, ready: Ready) -> float:
        """The measurement of the symptom on a build. Raises UnusableError when nothing can be measured."""
        assert self.symptom is not None
        reported = replace(self.symptom, limit=0.0, baseline={}, reference=None)  # any measurement exceeds this limit
        verdict = replace(self, symptom=reported).run(ready).verdict
        if verdict.status is Status.PASS:
            return 0.0
        if verdict.status is Status.FAIL and verdict.failure is not None and verdict.failure.measured is not None:
            return verdict.failure.measured.value
        raise UnusableError(verdict.note or "nothing could be measured")

    def _environment(self, more: Mapping[str, str], directory: Path) -> dict[str, str]:
        """The variables of a run, with the probe and the trace if something is measured."""
        env = dict(os.environ)
        if self.untrusted:
            (directory / "home").mkdir()
            env = environment_for(os.environ, directory / "home")
        env |= more
        if self.symptom is None:
            return env
        (directory / "trace").mkdir()
        env["TORCH_TRACE"] = str(directory / "trace")
        measure = probes(self.symptom)
        return probe_environment(
            env, "override", directory / "probe", self.timeout, {"measure": measure} if measure else None
        )

    def _carry(self, cwd: Path) -> None:
        """Copy files that the command names to `cwd` if they are missing: a test may be newer than a build."""
        for word in self.argv:
            source, target = self.cwd / word, cwd / word
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
