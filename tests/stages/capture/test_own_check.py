"""Which runs of the script show that its own check depends on a graph."""

from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION, Observation, ObservedFailure
from repro_kit.errors import Exit, Stop
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, signature_of
from repro_kit.graph.reading.graph_record import GraphRecord
from repro_kit.options.stages import CaptureOptions
from repro_kit.recipe import Recipe
from repro_kit.stages.capture import graph_search
from repro_kit.stages.capture.graph_search import OwnCheck
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.ui import SilentUi

WRONG = Failure(Kind.ACCURACY, text="drift")
PASSES, ALIKE, OTHERWISE = RunOutcome.PASSES, RunOutcome.FAILS_ALIKE, RunOutcome.FAILS_OTHERWISE


class Told(OwnCheck):
    """Is told how the script ends, by the graphs that run in eager."""

    def __init__(self, tmp_path: Path, ends: dict[str, RunOutcome], *, users_cache: bool = False) -> None:
        case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
        failures = (ObservedFailure(WRONG, signature_of(WRONG), source="exception"),)
        observation = Observation((), 1, None, False, 1.0, 1, None, None, failures, users_cache=users_cache)
        case.store(OBSERVATION, observation)
        super().__init__(case, CaptureOptions(), SilentUi())
        self.ends, self.ran = ends, list[str]()

    def ending(self, failure: ObservedFailure, in_eager: str, why: str) -> RunOutcome:
        self.ran.append(in_eager)
        return self.ends.get(in_eager, OTHERWISE)


def attempt(compile_id: str) -> Attempt:
    return Attempt("", Recipe(), GraphRecord(number=0, pid=0, compile_id=compile_id), "")


@pytest.mark.parametrize(
    ("compile_id", "ends", "depends", "ran"),
    [
        ("1/0", {"1": PASSES}, True, ["1"]),
        ("1/0", {"1": ALIKE, ">=0": PASSES, "0-0,>1": ALIKE}, True, ["1", ">=0", "0-0,>1"]),
        ("0/2", {"0": ALIKE, ">=0": PASSES, ">0": ALIKE}, True, ["0", ">=0", ">0"]),
        ("0/0", {"0": ALIKE, ">=0": PASSES, ">0": PASSES}, False, ["0", ">=0", ">0"]),
        ("0/0", {"0": OTHERWISE, ">=0": PASSES, ">0": OTHERWISE}, False, ["0", ">=0", ">0"]),
        ("0/0", {"0": ALIKE, ">=0": ALIKE}, False, ["0", ">=0"]),
    ],
)
def test_a_graph_counts_where_it_is_necessary_or_enough(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compile_id: str,
    ends: dict[str, RunOutcome],
    depends: bool,
    ran: list[str],
) -> None:
    monkeypatch.setattr(graph_search.settle, "by_runs", lambda *_: None)
    check = Told(tmp_path, ends)
    assert (check.doubt(attempt(compile_id)) == "") is depends
    assert bool(check.sentence) is depends
    assert check.ran == ran


def test_each_run_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_search.settle, "by_runs", lambda *_: None)
    check = Told(tmp_path, {">=0": PASSES})
    for compile_id in ("0/0", "0/1", "2/0"):
        check.doubt(attempt(compile_id))
    assert check.ran == ["0", ">=0", ">0", "2", "0-1,>2"]


def test_a_script_that_fails_in_eager_too_ends_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_eager_too(*_: object) -> None:
        raise Stop(Exit.USER_BUG, "The program fails without torch.compile too.")

    monkeypatch.setattr(graph_search.settle, "by_runs", in_eager_too)
    with pytest.raises(Stop):
        Told(tmp_path, {"0": ALIKE, ">=0": ALIKE}).doubt(attempt("0/0"))


def test_a_graph_that_is_wrong_with_an_empty_cache_is_not_why_a_script_fails_with_the_users(tmp_path: Path) -> None:
    check = Told(tmp_path, {"0": PASSES}, users_cache=True)
    assert "without the user's compiler cache" in check.doubt(attempt("0/0"))
    assert check.ran == []


def test_of_a_watched_program_the_dependence_stays_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_search.watched_recording, "is_watched", lambda _: True)
    check = Told(tmp_path, {})
    assert check.doubt(attempt("0/0")) == ""
    assert "is unknown" in check.sentence
    assert check.ran == []
