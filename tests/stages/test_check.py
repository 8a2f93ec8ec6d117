"""How often `repro.py` is run before it counts as one that does not fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from repro_kit.bundle.judge import Ending, Reading
from repro_kit.model.failure import ExceptionLink, Failure, Kind
from repro_kit.model.signature import signature_of
from repro_kit.stages import check as module
from repro_kit.stages.check import RunOfRepro, check_repro

FAILURE = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("ValueError", "now and then"),))


@pytest.mark.parametrize(
    ("fails", "tries", "runs", "same"),
    [
        ((0,), 1, 1, 1),  # at once, and that is that
        ((1,), 1, 3, 1),  # three runs tell that it is flaky
        ((), 1, 3, 0),
        ((5,), 6, 6, 1),  # known to be flaky
        ((3,), 6, 4, 1),
        ((), 6, 6, 0),
    ],
)
def test_a_flaky_failure_gets_the_runs_it_needs(monkeypatch, fails, tries: int, runs: int, same: int) -> None:
    made: list[bool] = []

    def run(python: str, directory: Path, *, compiled: bool = True, **_: object) -> RunOfRepro:
        found = compiled and len(made) in fails
        made.append(compiled)
        return RunOfRepro(Reading(Ending.FAILS, FAILURE) if found else Reading(Ending.PASSES), "", 1.0)

    monkeypatch.setattr(module, "run_repro", run)
    check = check_repro(sys.executable, Path(), signature_of(FAILURE), timeout=1.0, tries=tries)
    assert (len(check.runs), check.same, check.verified) == (runs, same, same > 0)
    assert made.count(False) == 1
