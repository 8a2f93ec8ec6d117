"""Judge builds by a symptom: a build is bad when a measurement exceeds a limit, or exceeds that of the good build."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.bisect.build import Judgement, Mark
from repro_kit.bisect.state import BisectState
from repro_kit.builds.build_source import BuildSource, UnusableError
from repro_kit.commands.bisect.run_build import BuildOracle, CommandOracle
from repro_kit.errors import CannotRunError, ReproKitError, UsageError
from repro_kit.farm.unit import now
from repro_kit.model.failure.failure import Kind
from repro_kit.model.failure.kinds import Unit
from repro_kit.model.measure.symptom import Symptom, parse_symptom
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
