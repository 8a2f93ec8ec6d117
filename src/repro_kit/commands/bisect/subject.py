"""What a bisection runs on each build: a repro.py, a command, or a command that is measured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from repro_kit.builds.build_source import BuildSource, Ready, UnusableError
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.bundle.repro.check_program import CANNOT_RUN, failure_in
from repro_kit.case.case import Case
from repro_kit.commands.bisect.answer import ManualRepro, clues_of
from repro_kit.errors import CannotRunError, ReproKitError, UsageError
from repro_kit.failure.classify import failure_from_signal, failure_from_timeout
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind, Unit
from repro_kit.failure.signature import Signature
from repro_kit.failure.symptom import Symptom, parse_symptom
from repro_kit.regressions.build import Judgement, Mark
from repro_kit.regressions.ranking import Clues
from repro_kit.regressions.search_state import DIRECTORY, BisectState
from repro_kit.regressions.unit import now
from repro_kit.repro_run.running import START_MARGIN, ProcessLimits, ReproRun, limits_of, run_repro
from repro_kit.repro_run.trust import agree
from repro_kit.repro_run.untrusted import REPRO, UntrustedBundle, ask, claim_of, entry_of, environment_for, opened
from repro_kit.runner.places import scratch
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.subject_start import command, private_caches, probe_environment
from repro_kit.runner.supervised import Run, exit_name, launch
from repro_kit.session.case_paths import is_case
from repro_kit.subject.subject_check import check_script
from repro_kit.trace import summarise
from repro_kit.ui import Ui
from repro_kit.verdicts.symptoms import of_run, probes

TIMED_OUT = 124  # exit status of coreutils' `timeout`
_TAIL = 400_000  # characters that are kept of each output


class BuildOracle(Protocol):
    """Runs a program or a command on a build."""

    def run(self, ready: Ready) -> ReproRun:
        """Run once on the build `ready`."""
        ...


@dataclass(frozen=True)
class ReproOracle:
    """Runs a temporary copy of a `repro.py`, as another user would. A `repro.py` from a stranger has `limits`."""

    directory: Path
    timeout: float
    limits: ProcessLimits | None = None

    def run(self, ready: Ready) -> ReproRun:
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

    def run(self, ready: Ready) -> ReproRun:
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
            return ReproRun(of_run(self.symptom, run, found, trace), output)

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


def read(run: Run, output: str) -> ReproRun:
    """Judge the run of a command by its exit status."""
    if run.ok:
        return ReproRun(Verdict(Status.PASS, seconds=run.seconds), output)
    if run.timed_out or run.exit_status == TIMED_OUT:
        failure = failure_from_timeout(text=output)
        return ReproRun(Verdict(Status.FAIL, failure, run.seconds, exit_name(run)), output, timed_out=True)
    if run.exit_status == CANNOT_RUN:
        return ReproRun(Verdict(Status.CANNOT_TELL, None, run.seconds, "it exits with 125"), output)
    signalled = failure_from_signal(run.signal, text=output) if run.signal else failure_in(output)
    return ReproRun(Verdict(Status.FAIL, signalled, run.seconds, exit_name(run)), output)


@dataclass(frozen=True)
class BuildSubject:
    """What is run on each build, the default directory for the state, and what is known about the failure."""

    description: str
    oracle: BuildOracle
    state_directory: Path
    signature: Signature | None = None
    python: str | None = None
    clues: Clues = field(default_factory=Clues)
    manual_repro: ManualRepro = field(default_factory=lambda: ManualRepro((), Path()))
    untrusted: bool = False  # from a stranger: its runs get few environment variables


@contextmanager
def build_subject(
    words: Sequence[str], *, is_command: bool, timeout: float, ui: Ui | None, symptom: Symptom | None = None
) -> Iterator[BuildSubject]:
    """Open the subject that `words` name. With `symptom`, its runs are judged by that measurement.

    Code from a stranger is shown first, and the user is asked to agree; without a `ui` nobody is asked, and the caller
    runs nothing. Raises ReproKitError for words that cannot be run.
    """
    with _subject(words, is_command=is_command, timeout=timeout, ui=ui) as subject:
        yield subject if symptom is None else _measured(subject, symptom, timeout)


def _measured(subject: BuildSubject, symptom: Symptom, timeout: float) -> BuildSubject:
    """Return `subject` with its command judged by a symptom."""
    manual_repro = subject.manual_repro
    return replace(
        subject,
        description=f"{subject.description} ({symptom.text})",
        oracle=CommandOracle(manual_repro.words, manual_repro.directory, timeout, subject.untrusted, symptom),
        signature=Signature(symptom.kind),
    )


@contextmanager
def _subject(words: Sequence[str], *, is_command: bool, timeout: float, ui: Ui | None) -> Iterator[BuildSubject]:
    if not words:
        raise UsageError("Nothing to run: give a case, a bundle, a repro.py, a script, or -- COMMAND.")
    if is_command:
        yield _command(words, Path(Path(words[0]).name + ".bisect"), timeout)
        return
    if len(words) > 1:
        raise UsageError(f"A command with arguments goes after `--`: -- {' '.join(words)}")
    target = Path(words[0])
    if is_case(target) and not (target / "bundle" / "repro.py").is_file():
        case = Case.open(target)
        if ui is not None:
            agree(case, ui)
        yield _of_case(case, timeout)
    elif target.suffix == ".py" and target.name != "repro.py" and not target.with_name(MANIFEST).is_file():
        check_script(target, words[0])
        yield _command(["python", words[0]], Path(target.stem + ".bisect"), timeout)
    elif not target.exists():
        raise UsageError(f"{target} does not exist; give a case, a bundle, a repro.py, a script, or -- COMMAND.")
    else:
        with opened(target) as bundle:
            yield _of_repro(bundle, timeout, ui)


def _of_repro(bundle: UntrustedBundle, timeout: float, ui: Ui | None) -> BuildSubject:
    target, directory = bundle.target, bundle.directory
    claim = claim_of(bundle.whole, target)
    case = Case.open(target) if is_case(target) else None
    own = case if case is not None and case.is_own else None
    if own is None and ui is not None:
        ask(bundle, "each build", ui)
    limit = max(timeout, (claim.limit or 0) + START_MARGIN)
    signature = claim.signature or (case.file.signature if case else None)
    return BuildSubject(
        f"repro.py of {target.name}",
        ReproOracle(directory, limit, None if own else limits_of()),
        target / DIRECTORY if own else Path(target.name.removesuffix(".zip").removesuffix(".py") + ".bisect"),
        signature,
        own.file.subject.python if own else None,
        clues_of(signature, claim.layer, (directory / REPRO).read_text(encoding="utf-8", errors="replace")),
        ManualRepro(("python", entry_of(directory)), bundle.whole if own else directory, passing=own is None),
        untrusted=own is None,
    )


def _of_case(case: Case, timeout: float) -> BuildSubject:
    """Return the subject for a case without a bundle: the command of the case."""
    subject = case.file.subject
    words = ["python" if word == subject.python else word for word in command(subject)]
    description = f"{' '.join(words)} in {subject.cwd}"
    directory = case.path / DIRECTORY
    oracle = CommandOracle(tuple(words), Path(subject.cwd), timeout)
    manual_repro = ManualRepro(tuple(words), Path(subject.cwd))
    signature = case.file.signature
    return BuildSubject(
        description, oracle, directory, signature, subject.python, clues_of(signature, None, ""), manual_repro
    )


def _command(words: Sequence[str], directory: Path, timeout: float) -> BuildSubject:
    oracle, repro = CommandOracle(tuple(words), Path.cwd(), timeout), ManualRepro(tuple(words), Path.cwd())
    return BuildSubject(" ".join(words), oracle, directory, manual_repro=repro)


_GOOD = {"backend": "good"}  # the result of `parse_symptom` for the baseline "good"


def build_symptom(text: str) -> Symptom:
    """Return the symptom that `text` names. A ratio is relative to the good build. Raises UsageError for a bad text."""
    try:
        symptom = parse_symptom(text)
    except ReproKitError:
        if "@" in text or not text.rstrip().endswith("x"):
            raise
        symptom = parse_symptom(f"{text}@good")
    if symptom.kind is Kind.COMPILE_GROWTH:
        raise UsageError(f"{text!r} is measured on a graph; bisect a case or a repro.py that shows it.")
    if symptom.unit is Unit.RATIO and not symptom.baseline:
        symptom = replace(symptom, baseline=_GOOD)
    if symptom.baseline not in ({}, _GOOD):
        raise UsageError(
            f"{text!r}: in a bisection a ratio is relative to the good build; leave out the @ and what follows."
        )
    return symptom


def with_reference(
    state: BisectState, source: BuildSource, oracle: BuildOracle, ui: Ui
) -> tuple[BisectState, BuildOracle]:
    """Measure the good build for a ratio, unless the state has its measurement. The other builds are compared with it.

    Raises ReproKitError when there is no good build, or it cannot be measured.
    """
    if not isinstance(oracle, CommandOracle) or oracle.symptom is None or not oracle.symptom.baseline:
        return state, oracle
    symptom, reference = oracle.symptom, state.reference
    if reference is None:
        build = next((build for build in state.builds if build.name == state.good), None)
        if build is None:
            raise UsageError(f"{symptom.text} is relative to a build that works; name that build with --good.")
        with ui.stage("measure"):
            ui.progress(f"measuring {build.shown}")
            try:
                with source.ready(build) as ready:
                    reference = oracle.measure(ready)
            except UnusableError as error:
                raise CannotRunError(f"{build.shown} cannot be measured: {error}; give another --good.") from error
            ui.done(f"{build.shown}: {reference:.4g}")
        reason = f"measured: {reference:.4g}; the other builds are compared with this"
        judgement = Judgement(build.name, Mark.GOOD, reason, "the reference", 1, version=ready.version, at=now())
        state = replace(state, reference=reference).with_judgement(replace(judgement, commit=ready.commit))
    return state, replace(oracle, symptom=symptom.with_reference(reference))
