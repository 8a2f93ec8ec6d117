"""The verdict on one compiled run of a script, from the files that the run left."""

from __future__ import annotations

from pathlib import Path

from repro_kit.failure.exception_origin import Nature
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.signature import Signature, Strength
from repro_kit.failure.symptom import Symptom
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.supervised import Run
from repro_kit.trace import summarise
from repro_kit.verdicts import observed_failures, symptoms
from repro_kit.verdicts.blame import as_wrong_result


def verdict_of(
    directory: Path, ended: Run, symptom: Symptom | None, target: Signature | None, *, passes_in_eager: bool
) -> Verdict:
    """The verdict on a run whose trace, findings and output are in `directory`.

    `target`: the failure to look for among several. `passes_in_eager`: whether the script passes without the compiler,
    so that an exception of its own check is a wrong result.
    """
    summary = summarise(directory / "trace")
    findings = read_findings(directory / "probe")
    failures = observed_failures.found_in(directory, ended, findings, summary)
    if symptom is not None and (ended.ok or symptom.kind.policy.eager_raises):
        verdict = symptoms.of_run(symptom, ended, findings, summary)
        if ended.ok or verdict.failure is not None:
            return verdict
    if not failures:
        return Verdict(Status.PASS, seconds=ended.seconds)
    lost = next((each.signature for each in failures if target and each.signature.is_lost_by(target)), None)
    if lost is not None:
        return Verdict(Status.PASS, seconds=ended.seconds, note=f"it raises {lost.exceptions[-1]}, as eager does")
    if passes_in_eager:
        failures = [as_wrong_result(failure) for failure in failures]
    like = [observed for observed in failures if target and target.matches(observed.signature, Strength.REBASED)]
    failure = (like or failures)[0]
    if failure.nature in (Nature.MACHINE, Nature.OBSERVER):
        whose = "of the machine" if failure.nature is Nature.MACHINE else "in repro-kit's own code"
        note = f"an error {whose}: {failure.signature.summary()}"
        return Verdict(Status.CANNOT_TELL, seconds=ended.seconds, note=note)
    return Verdict(Status.FAIL, failure.failure, ended.seconds)
