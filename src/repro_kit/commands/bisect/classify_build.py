"""Judge a build by runs on it: the expected failure makes it bad, and a different failure makes it useless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from repro_kit.bisect import Mark
from repro_kit.builds.build_source import Ready
from repro_kit.commands.bisect.run_build import BuildOracle, BuildRun
from repro_kit.model.failure.signature import Signature, Strength
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.reduce.flaky import repeats_for

_VERIFY = 3  # runs on the failing end
_MEASURE = 10  # runs on the failing end when only some of them fail


@dataclass(frozen=True)
class Rules:
    """What counts as the failure. `signature` is None while the failure is not known."""

    signature: Signature | None = None
    any_failure: bool = False  # any failure is bad
    on_timeout: Mark = Mark.SKIP
    others: Mark = Mark.SKIP  # the mark of a different failure
    repeats: int = 1  # runs that must all pass before a build is good


@dataclass(frozen=True)
class JudgedBuild:
    """The mark of a build, and the runs that it is based on."""

    mark: Mark
    reason: str
    runs: int = 0
    failures: int = 0
    other: str = ""
    seconds: float = 0.0
    signature: Signature | None = None  # of the failure that made the build bad
    output: str = ""  # of the run that decided the mark


def judge(oracle: BuildOracle, ready: Ready, rules: Rules, tick: Callable[[str], None]) -> JudgedBuild:
    """Run the oracle until it fails as expected, at most ``rules.repeats`` times."""
    judged = JudgedBuild(Mark.GOOD, "it passes")
    for number in range(rules.repeats):
        tick(f"run {number + 1} of up to {rules.repeats}" if rules.repeats > 1 else "run")
        judged = _added(judged, _judge_run(oracle.run(ready), rules))
        if judged.mark is Mark.BAD:
            return _with_counts(judged)
        if judged.mark is Mark.SKIP and not judged.other:
            return judged  # the oracle cannot run on this build, so another run would not help
    return _with_counts(judged)


def verify(oracle: BuildOracle, ready: Ready, rules: Rules, tick: Callable[[str], None]) -> tuple[JudgedBuild, Rules]:
    """Run the oracle on the build that should fail. Return its judgement, and the rules for the other builds.

    An unknown signature is taken from the failure on this build. When only some runs fail, the oracle is run more
    often, and the failure rate decides how often the other builds must pass.
    """
    judged = JudgedBuild(Mark.GOOD, "it passes")
    wanted, settled = max(_VERIFY, rules.repeats), False
    while judged.runs < wanted:
        tick(f"verifying, run {judged.runs + 1} of {wanted}")
        run = _judge_run(oracle.run(ready), rules)
        if run.mark is Mark.BAD and rules.signature is None and not rules.any_failure:
            rules = replace(rules, signature=run.signature)
        judged = _added(judged, run)
        if run.mark is Mark.SKIP and not run.other:
            return judged, rules
        if judged.runs == wanted and 0 < judged.failures < judged.runs and not settled:
            wanted, settled = max(wanted, _MEASURE), True
    if judged.failures:
        rules = replace(rules, repeats=max(rules.repeats, repeats_for(judged.failures, judged.runs)))
    return _with_counts(judged), rules


def _added(before: JudgedBuild, run: JudgedBuild) -> JudgedBuild:
    """Add a run to a judgement: the mark is bad if either is bad, else skip if either is skip, else good."""
    order = (Mark.BAD, Mark.SKIP, Mark.GOOD)
    leading = min((run, before), key=lambda judged: order.index(judged.mark))
    return replace(
        leading,
        runs=before.runs + run.runs,
        failures=before.failures + run.failures,
        other=before.other or run.other,
        seconds=before.seconds + run.seconds,
    )


def _with_counts(judged: JudgedBuild) -> JudgedBuild:
    if judged.mark is Mark.GOOD and judged.other:
        return replace(judged, reason=f"another failure, which counts as good: {judged.other}")
    if judged.runs < 2:
        return judged
    if judged.mark is Mark.GOOD:
        return replace(judged, reason=f"it passes {judged.runs} times of {judged.runs}")
    if judged.mark is Mark.BAD:
        return replace(judged, reason=f"{judged.reason} ({judged.failures} of {judged.runs} runs)")
    return judged


def _judge_run(run: BuildRun, rules: Rules) -> JudgedBuild:
    """Judge a single run."""
    signature, expected = run.signature, rules.signature
    failure = signature.summary() if signature else run.verdict.note

    def judged(mark: Mark, reason: str, other: str = "") -> JudgedBuild:
        bad = mark is Mark.BAD
        return JudgedBuild(
            mark, reason, 1, int(bad), other, run.verdict.seconds, signature if bad else None, run.output
        )

    if run.timed_out and not rules.any_failure:
        if expected is not None and expected.kind.policy.hangs:
            return judged(Mark.BAD, f"it fails: {failure}")
        return judged(rules.on_timeout, f"time-out ({run.verdict.note}), counted as {rules.on_timeout}")
    match outcome_of(run.verdict, None if rules.any_failure else expected, Strength.CROSS_VERSION):
        case RunOutcome.PASSES:
            return judged(Mark.GOOD, "it passes")
        case RunOutcome.FAILS_ALIKE:
            return judged(Mark.BAD, f"it fails: {failure}")
        case RunOutcome.FAILS_OTHERWISE:
            return judged(rules.others, f"another failure: {failure}", failure)
    return judged(Mark.SKIP, f"it cannot run: {failure}" if failure else "it cannot run")
