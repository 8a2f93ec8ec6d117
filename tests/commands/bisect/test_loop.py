"""The loop of a bisection on builds that are letters: what is run how often, and what an interruption leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.builds.build_source import BuildSource, Ready
from repro_kit.builds.catalog import BuildSelection
from repro_kit.commands.bisect.loop import Bisection
from repro_kit.commands.bisect.plan import BisectRequest
from repro_kit.failure.failure import ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.regressions.build import Build, Mark
from repro_kit.regressions.search import SearchEnding
from repro_kit.regressions.search_state import SCHEMA, BisectState, read_state
from repro_kit.regressions.unit import UnitResult
from repro_kit.repro_run.running import ReproRun
from repro_kit.ui import SilentUi

FAILS = Verdict(Status.FAIL, Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("ValueError", "boom bang"),)), 1.0)
OTHER = Verdict(Status.FAIL, Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("KeyError", "what else"),)), 1.0)
VERDICTS = {"g": Verdict(Status.PASS, seconds=1.0), "b": FAILS, "o": OTHER}


class Letters(BuildSource):
    """Builds, and the ends of their runs: the n-th run on a build ends as its n-th letter, the last one stays."""

    description = "letters"

    def __init__(self, *ends: str, stop: int = 99) -> None:
        self.ends = ends
        self.stop = stop  # Ctrl-C comes in the run after so many
        self.made: list[str] = []

    def builds(self) -> Sequence[Build]:
        return [Build(str(number)) for number in range(len(self.ends))]

    @contextmanager
    def ready(self, build: Build) -> Iterator[Ready]:
        yield Ready(build.name)

    def run(self, ready: Ready) -> ReproRun:
        if len(self.made) == self.stop:
            raise KeyboardInterrupt
        ends, number = self.ends[int(ready.python)], self.made.count(ready.python)
        self.made.append(ready.python)
        return ReproRun(VERDICTS[ends[min(number, len(ends) - 1)]], ends)


def bisection(letters: Letters, directory: Path, others: Mark = Mark.SKIP) -> Bisection:
    builds = tuple(letters.builds())
    state = BisectState(SCHEMA, "it", builds, "frob", "letters", "it", good=builds[0].name, bad=builds[-1].name)
    request = BisectRequest((), False, "", (), BuildSelection(), others=others)
    return Bisection(directory, read_state(directory) or state, letters, letters, request, SilentUi())


def test_the_failing_end_is_verified_and_names_the_failure(tmp_path: Path) -> None:
    letters = Letters("g", "g", "o", "b", "b")
    search = bisection(letters, tmp_path)
    outcome = search.run()
    assert (outcome.ending, outcome.old, outcome.new, outcome.skipped) == (SearchEnding.RANGE, 1, 3, (2,))
    assert letters.made.count("4") == 3 and search.state.signature == signature_of(FAILS.failure)
    assert search.state.current["4"].reason == "it fails: ValueError: boom bang (3 of 3 runs)"
    assert search.state.current["2"].reason == "another failure: KeyError: what else"
    assert (tmp_path / "logs" / "4.txt").read_text() == "b"


def test_a_different_failure_may_count_as_good(tmp_path: Path) -> None:
    letters = Letters("o", "o", "b")
    search = bisection(letters, tmp_path, Mark.GOOD)
    outcome = search.run()
    assert (outcome.ending, outcome.old, outcome.new) == (SearchEnding.FOUND, 1, 2)
    judged = search.state.current["1"]
    assert (judged.mark, judged.other) == (Mark.GOOD, "KeyError: what else")
    assert judged.reason == "another failure, which counts as good: KeyError: what else"


def test_how_often_it_fails_says_how_often_it_must_pass(tmp_path: Path) -> None:
    letters = Letters("g", "gb", "gb" + "gb" * 9)
    search = bisection(letters, tmp_path)
    search.run()
    assert (letters.made.count("2"), search.state.flaky) == (10, "5 of 10 runs")
    assert letters.made.count("0") == search.state.repeats > 1
    assert search.state.current["1"].reason == "it fails: ValueError: boom bang (1 of 2 runs)"


@pytest.mark.parametrize("stop", [1, 4, 9, 11])
def test_interrupted_in_a_build_it_makes_no_run_again(tmp_path: Path, stop: int) -> None:
    ends = ("g", "gggb", "gb" * 5)
    whole = Letters(*ends)
    expected = bisection(whole, tmp_path / "whole").run()
    first = Letters(*ends, stop=stop)
    with pytest.raises(KeyboardInterrupt):
        bisection(first, tmp_path / "two").run()
    second = Letters(*ends)
    second.made, first.made = list(first.made), []
    search = bisection(second, tmp_path / "two")
    assert (search.run(), second.made) == (expected, whole.made)
    assert search.state.unfinished is None


def test_a_build_that_is_judged_by_hand_keeps_no_runs() -> None:
    letters = Letters("g", "b")
    state = bisection(letters, Path("nowhere")).state
    state = replace(state, unfinished=UnitResult("1", failed=1))
    assert state.without("0").unfinished is not None
    assert state.without("1").unfinished is None
