"""An oracle for what raises nothing: a build is bad where a measurement is above its limit, or above the good end's."""

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
from repro_kit.model.failure.failure import Status
from repro_kit.model.failure.signature import Signature
from repro_kit.model.measure.symptom import Symptom, Unit, parse_symptom
from repro_kit.runner.launch import Run
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.subject_start import probe_environment
from repro_kit.session.verdicts.symptoms import of_run, probes
from repro_kit.trace import summarise
from repro_kit.ui import Ui

_GOOD = {"backend": "good"}  # the baseline "good", as `parse_symptom` reads it


def build_symptom(text: str) -> Symptom:
    """The symptom that `text` names; a ratio is to the good end. Raises ReproKitError for what is none."""
    try:
        symptom = parse_symptom(text)
    except ReproKitError:
        if "@" in text or not text.rstrip().endswith("x"):
            raise
        symptom = parse_symptom(f"{text}@good")
    if symptom.unit is Unit.RATIO and not symptom.baseline:
        symptom = replace(symptom, baseline=_GOOD)
    if symptom.baseline not in ({}, _GOOD):
        raise UsageError(f"{text!r}: in a bisection a ratio is to the good build; leave out what follows the @.")
    return symptom


class SymptomOracle(CommandOracle):
    """A command under the probe and the trace, judged by what was measured of it."""

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
        """Whether the good end must be measured first."""
        return bool(self.symptom.baseline)

    @property
    def signature(self) -> Signature:
        """What a build must show to be bad."""
        return Signature(self.symptom.kind)

    def measure(self, ready: Ready) -> float:
        """What is measured on a build. Raises UnusableError when nothing can be."""
        symptom = self.symptom
        self.symptom = replace(symptom, limit=0.0, baseline={}, reference=None)  # whatever there is is above that
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
        """With the probe and the trace switched on."""
        (directory / "trace").mkdir()
        env["TORCH_TRACE"] = str(directory / "trace")
        measure = probes(self.symptom)
        return probe_environment(
            env, "override", directory / "probe", self.timeout, {"measure": measure} if measure else None
        )

    def seen(self, run: Run, output: str, directory: Path) -> BuildRun:
        """What was measured, against the limit."""
        if not run.ok:
            return read(run, output)
        return BuildRun(
            of_run(self.symptom, run, read_findings(directory / "probe"), summarise(directory / "trace")), output
        )


def with_reference(state: BisectState, source: BuildSource, oracle: SymptomOracle, ui: Ui) -> BisectState:
    """The state with what the good end measures, which the other builds are compared with.

    Raises ReproKitError when there is no good end, or it cannot be measured.
    """
    reference = state.reference
    if reference is None:
        build = next((build for build in state.builds if build.name == state.good), None)
        if build is None:
            raise UsageError(f"{oracle.symptom.text} is relative to a build that works; name it with --good.")
        with ui.stage("measure"):
            ui.progress(f"measuring {build.shown}")
            try:
                with source.ready(build) as ready:
                    reference = oracle.measure(ready)
            except UnusableError as error:
                raise CannotRunError(f"{build.shown} cannot be measured: {error}; give another --good.") from error
            ui.done(f"{build.shown}: {reference:.4g}")
        reason = f"measured: {reference:.4g}, which the others are compared with"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        judgement = Judgement(build.name, Mark.GOOD, reason, "the reference", 1, version=ready.version, at=now)
        state = replace(state, reference=reference).with_judgement(replace(judgement, commit=ready.commit))
    oracle.symptom = oracle.symptom.with_reference(reference)
    return state
