"""How the runs of a case on a build decide its outcome, and what a worker that is killed leaves to the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from repro_kit.failure.failure import ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature, signature_of
from repro_kit.regressions.build import Mark
from repro_kit.regressions.unit import UnitOrder, UnitResult, UnitRules
from repro_kit.repro_run import run_unit
from repro_kit.repro_run.run_unit import read_result, run_unit_file, run_until_known
from repro_kit.repro_run.running import ReproRun
from repro_kit.serialize import dumps


def failure(name: str) -> Failure:
    return Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink(name, "the planted failure"),))


RUNS = {
    "P": ReproRun(Verdict(Status.PASS, seconds=1.0), ""),
    "F": ReproRun(Verdict(Status.FAIL, failure("ValueError"), 1.0), ""),
    "o": ReproRun(Verdict(Status.FAIL, failure("KeyError"), 1.0), ""),
    "t": ReproRun(Verdict(Status.CANNOT_TELL, None, 1.0, "killed after 1 s"), "", timed_out=True),
    "x": ReproRun(Verdict(Status.CANNOT_TELL, None, 1.0, "no such device"), ""),
}
EXPECTED = signature_of(failure("ValueError"))


def unit(letters: str, rules: UnitRules) -> tuple[UnitResult, int]:
    """The unit whose runs end as `letters` say, and how many of them were made."""
    made: list[UnitResult] = []
    left: Iterator[str] = iter(letters)
    result = run_until_known(lambda: RUNS[next(left)], rules, UnitResult("1.0"), made.append)
    return result, len(made)


@pytest.mark.parametrize(
    ("letters", "rules", "outcome", "runs"),
    [
        ("P", UnitRules(EXPECTED), RunOutcome.PASSES, 1),
        ("PPP", UnitRules(EXPECTED, passes=3), RunOutcome.PASSES, 3),
        ("PPF", UnitRules(EXPECTED, passes=9), RunOutcome.FAILS_ALIKE, 3),
        ("FFFFF", UnitRules(EXPECTED, failures=5), RunOutcome.FAILS_ALIKE, 5),
        ("FPFPFPFPFP", UnitRules(EXPECTED, failures=5), RunOutcome.FAILS_ALIKE, 10),  # the rate is measured
        ("o", UnitRules(EXPECTED, passes=3), RunOutcome.FAILS_OTHERWISE, 1),
        ("oPP", UnitRules(EXPECTED, passes=3, persists=True), RunOutcome.FAILS_OTHERWISE, 3),
        ("oPF", UnitRules(EXPECTED, passes=3, persists=True), RunOutcome.FAILS_ALIKE, 3),
        ("x", UnitRules(EXPECTED, passes=3, persists=True), RunOutcome.CANNOT_TELL, 1),
        ("t", UnitRules(EXPECTED), RunOutcome.CANNOT_TELL, 1),
        ("t", UnitRules(Signature(Kind.TIMEOUT)), RunOutcome.FAILS_ALIKE, 1),
        ("t", UnitRules(EXPECTED, hangs=True), RunOutcome.FAILS_OTHERWISE, 1),
        ("t", UnitRules(hangs=True), RunOutcome.FAILS_ALIKE, 1),
        ("t", UnitRules(EXPECTED, on_timeout=Mark.BAD), RunOutcome.FAILS_ALIKE, 1),
        ("tP", UnitRules(EXPECTED, passes=2, on_timeout=Mark.GOOD), RunOutcome.PASSES, 2),
        ("oF", UnitRules(passes=2, failures=2), RunOutcome.FAILS_ALIKE, 2),  # any failure counts
    ],
)
def test_the_runs_decide(letters: str, rules: UnitRules, outcome: RunOutcome, runs: int) -> None:
    result, made = unit(letters, rules)
    assert (result.outcome, made, result.seconds) == (outcome, runs, float(runs))


def test_the_first_failure_is_the_one_that_is_looked_for() -> None:
    rules = UnitRules(passes=3, failures=3, learns=True, persists=True)
    result, _ = unit("FoFPPPPPPP", rules)
    assert (result.failed, result.others, result.passed) == (2, 1, 7)
    assert rules.expected(result) == EXPECTED
    assert result.seen == "it fails: " + EXPECTED.summary()


def test_attempts_add_up() -> None:
    first, _ = unit("F", UnitRules(EXPECTED))
    later, _ = unit("PP", UnitRules(EXPECTED, passes=2))
    both = first + later
    assert (both.outcome, both.failed, both.passed, both.seconds) == (RunOutcome.FAILS_ALIKE, 1, 2, 3.0)


def test_the_finished_runs_of_a_killed_worker_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter("FFkFFF")

    def run(*_: object, **__: object) -> ReproRun:
        letter = next(ends)
        if letter == "k":
            raise KeyboardInterrupt
        return RUNS[letter]

    monkeypatch.setattr(run_unit, "run_repro", run)
    order = UnitOrder("a", "releases", "2", 0, str(tmp_path), "python", rules=UnitRules(EXPECTED, 3, 5))
    (tmp_path / "order.json").write_bytes(dumps(order))
    with pytest.raises(KeyboardInterrupt):
        run_unit_file(str(tmp_path / "order.json"), str(tmp_path / "result-1.json"))
    result = run_unit_file(str(tmp_path / "order.json"), str(tmp_path / "result-2.json"))
    done = read_result(Path(result))
    assert (done.failed, done.seconds, done.case, done.line, done.build) == (5, 5.0, "a", "releases", "2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["order.json", "result-2.json"]
