"""From runs on a build to its mark: the failure that is looked for makes it bad, another one makes it useless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from repro_kit.bisect import Mark
from repro_kit.builds.build_source import Ready
from repro_kit.commands.bisect.run_build import BuildOracle, BuildRun
from repro_kit.model.failure.failure import Kind
from repro_kit.model.failure.signature import Signature, Strength
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.reduce.flaky import repeats_for

_VERIFY = 3  # runs on the failing end
_MEASURE = 10  # runs on it when it fails now and then


@dataclass(frozen=True)
class Rules:
    """What counts as the failure: `signature` is its own, None where it is not known (yet)."""

    signature: Signature | None = None
    any_failure: bool = False  # whatever fails is bad
    on_timeout: Mark = Mark.SKIP
    others: Mark = Mark.SKIP  # another failure
    repeats: int = 1  # runs that must all pass before a build is good


@dataclass(frozen=True)
class JudgedBuild:
    """The mark of a build, and what it rests on."""

    mark: Mark
    reason: str
    runs: int = 0
    failures: int = 0
    other: str = ""
    seconds: float = 0.0
    signature: Signature | None = None  # of the failure that counted
    output: str = ""  # of the run that decided


def judge(oracle: BuildOracle, ready: Ready, rules: Rules, tick: Callable[[str], None]) -> JudgedBuild:
    """Run the oracle until it fails with the signature, at most ``rules.repeats`` times."""
    found = JudgedBuild(Mark.GOOD, "it passes")
    for number in range(rules.repeats):
        tick(f"run {number + 1} of up to {rules.repeats}" if rules.repeats > 1 else "run")
        found = _added(found, _one(oracle.run(ready), rules))
        if found.mark is Mark.BAD:
            return _told(found)
        if found.mark is Mark.SKIP and not found.other:
            return found  # it cannot run here: nor will it the next time
    return _told(found)


def verify(oracle: BuildOracle, ready: Ready, rules: Rules, tick: Callable[[str], None]) -> tuple[JudgedBuild, Rules]:
    """Run the oracle on the end that is said to fail: what it shows, and the rules for the other builds.

    A signature that is not known is taken from it. When it fails now and then, it is run more often, and the rate says
    how often the others must pass.
    """
    found = JudgedBuild(Mark.GOOD, "it passes")
    wanted, settled = max(_VERIFY, rules.repeats), False
    while found.runs < wanted:
        tick(f"verifying, run {found.runs + 1} of {wanted}")
        one = _one(oracle.run(ready), rules)
        if one.mark is Mark.BAD and rules.signature is None and not rules.any_failure:
            rules = replace(rules, signature=one.signature)
        found = _added(found, one)
        if one.mark is Mark.SKIP and not one.other:
            return found, rules
        if found.runs == wanted and 0 < found.failures < found.runs and not settled:
            wanted, settled = max(wanted, _MEASURE), True
    if found.failures:
        rules = replace(rules, repeats=max(rules.repeats, repeats_for(found.failures, found.runs)))
    return _told(found), rules


def _added(before: JudgedBuild, one: JudgedBuild) -> JudgedBuild:
    """Both together: bad if one of them is, else useless if one of them is."""
    order = (Mark.BAD, Mark.SKIP, Mark.GOOD)
    leading = min((one, before), key=lambda it: order.index(it.mark))
    return replace(
        leading,
        runs=before.runs + one.runs,
        failures=before.failures + one.failures,
        other=before.other or one.other,
        seconds=before.seconds + one.seconds,
    )


def _told(found: JudgedBuild) -> JudgedBuild:
    if found.mark is Mark.GOOD and found.other:
        return replace(found, reason=f"another failure, which counts as good: {found.other}")
    if found.runs < 2:
        return found
    if found.mark is Mark.GOOD:
        return replace(found, reason=f"it passes {found.runs} times of {found.runs}")
    if found.mark is Mark.BAD:
        return replace(found, reason=f"{found.reason} ({found.failures} of {found.runs} runs)")
    return found


def _one(seen: BuildRun, rules: Rules) -> JudgedBuild:
    """What a single run says."""
    signature, expected = seen.signature, rules.signature
    told = signature.summary() if signature else seen.verdict.note

    def found(mark: Mark, reason: str, other: str = "") -> JudgedBuild:
        bad = mark is Mark.BAD
        return JudgedBuild(
            mark, reason, 1, int(bad), other, seen.verdict.seconds, signature if bad else None, seen.output
        )

    if seen.timed_out and not rules.any_failure:
        if expected is not None and expected.kind is Kind.TIMEOUT:
            return found(Mark.BAD, f"it fails: {told}")
        return found(rules.on_timeout, f"time-out ({seen.verdict.note}), counted as {rules.on_timeout}")
    match outcome_of(seen.verdict, None if rules.any_failure else expected, Strength.CROSS_VERSION):
        case RunOutcome.PASSES:
            return found(Mark.GOOD, "it passes")
        case RunOutcome.FAILS_ALIKE:
            return found(Mark.BAD, f"it fails: {told}")
        case RunOutcome.FAILS_OTHERWISE:
            return found(rules.others, f"another failure: {told}", told)
    return found(Mark.SKIP, f"it cannot run: {told}" if told else "it cannot run")
