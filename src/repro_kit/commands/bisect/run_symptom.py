"""Judge builds by a symptom: a build is bad when a measurement exceeds a limit, or exceeds that of the good build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from repro_kit.bisect import Judgement, Mark
from repro_kit.bisect.state import BisectState
from repro_kit.builds.build_source import BuildSource, Ready, UnusableError
from repro_kit.commands.bisect.run_build import BuildRun, CommandOracle, read
from repro_kit.errors import CannotRunError, ReproKitError, UsageError
from repro_kit.model.failure.failure import Kind, Status
from repro_kit.model.failure.kinds import Unit
from repro_kit.model.failure.signature import Signature
from repro_kit.model.measure.symptom import Symptom, parse_symptom
from repro_kit.runner.launch import Run
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.subject_start import probe_environment
from repro_kit.session.verdicts.symptoms import of_run, probes
from repro_kit.trace import summarise
from repro_kit.ui import Ui

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


class SymptomOracle(CommandOracle):
    """Runs a command with the probe and the trace, and judges it by its measurements."""

    def __init__(
        self,
        description: str,
        argv: Sequence[str],
        *,
        cwd: Path,
        timeout: float,
        symptom: Symptom,
        untrusted: bool = False,
    ) -> None:
        super().__init__(f"{description} ({symptom.text})", argv, cwd=cwd, timeout=timeout, untrusted=untrusted)
        self.symptom = symptom

    @property
    def relative(self) -> bool:
        """Whether the good build must be measured first."""
        return bool(self.symptom.baseline)

    @property
    def signature(self) -> Signature:
        """The signature of a bad build."""
        return Signature(self.symptom.kind)

    def measure(self, ready: Ready) -> float:
        """Return the measurement on a build. Raises UnusableError when nothing can be measured."""
        symptom = self.symptom
        self.symptom = replace(
            symptom, limit=0.0, baseline={}, reference=None
        )  # any measurement exceeds this limit, and so is reported
        try:
            verdict = self.run(ready).verdict
        finally:
            self.symptom = symptom
        if verdict.status is Status.PASS:
            return 0.0
        if verdict.status is Status.FAIL and verdict.failure is not None and verdict.failure.measured is not None:
            return verdict.failure.measured.value
        raise UnusableError(verdict.note or "nothing could be measured")

    def environment(self, env: dict[str, str], directory: Path) -> dict[str, str]:
        """Switch on the probe and the trace."""
        (directory / "trace").mkdir()
        env["TORCH_TRACE"] = str(directory / "trace")
        measure = probes(self.symptom)
        return probe_environment(
            env, "override", directory / "probe", self.timeout, {"measure": measure} if measure else None
        )

    def seen(self, run: Run, output: str, directory: Path) -> BuildRun:
        """Judge the run by comparing its measurement with the limit."""
        if not run.ok:
            return read(run, output)
        return BuildRun(
            of_run(self.symptom, run, read_findings(directory / "probe"), summarise(directory / "trace")), output
        )


def with_reference(state: BisectState, source: BuildSource, oracle: SymptomOracle, ui: Ui) -> BisectState:
    """Measure the good build, unless the state has its measurement. The other builds are compared with it.

    Raises ReproKitError when there is no good build, or it cannot be measured.
    """
    reference = state.reference
    if reference is None:
        build = next((build for build in state.builds if build.name == state.good), None)
        if build is None:
            raise UsageError(f"{oracle.symptom.text} is relative to a build that works; name that build with --good.")
        with ui.stage("measure"):
            ui.progress(f"measuring {build.shown}")
            try:
                with source.ready(build) as ready:
                    reference = oracle.measure(ready)
            except UnusableError as error:
                raise CannotRunError(f"{build.shown} cannot be measured: {error}; give another --good.") from error
            ui.done(f"{build.shown}: {reference:.4g}")
        reason = f"measured: {reference:.4g}; the other builds are compared with this"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        judgement = Judgement(build.name, Mark.GOOD, reason, "the reference", 1, version=ready.version, at=now)
        state = replace(state, reference=reference).with_judgement(replace(judgement, commit=ready.commit))
    oracle.symptom = oracle.symptom.with_reference(reference)
    return state
