"""How oracles are opened: the time limit of a query, and how many queries run at once."""

from pathlib import Path

import pytest

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import CAPTURE, ENVIRONMENT, OBSERVATION, Capture, Environment, Observation
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.options.stages import QueryOptions
from repro_kit.session.oracles import fresh_timeout, open_oracle, query_timeout, shared_oracles


@pytest.fixture
def case(tmp_path: Path) -> Case:
    subject = Subject("script", ("train.py",), str(tmp_path), "python")
    return Case.create(tmp_path / "a.repro", subject, "2026-01-01T00:00:00+00:00")


def observed(case: Case, seconds: float) -> None:
    case.store(OBSERVATION, Observation((), 1, None, False, seconds, 0, None, None))
    case.record(StageRecord("observe", "done"))


def captured(case: Case, seconds: float) -> None:
    case.store(CAPTURE, Capture("program", verdict=Verdict(Status.FAIL, seconds=seconds)))
    case.record(StageRecord("capture", "done"))


def test_a_slow_run_gives_its_graphs_more_time_than_a_fast_one(case: Case) -> None:
    unmeasured = query_timeout(case, QueryOptions())
    observed(case, 70.0)
    slow = query_timeout(case, QueryOptions())
    observed(case, 5.0)
    fast = query_timeout(case, QueryOptions())
    assert slow > 5 * 70 > unmeasured > fast > 5 * 5


def test_the_captured_program_counts_more_than_the_run_of_the_script(case: Case) -> None:
    observed(case, 1200.0)
    before = query_timeout(case, QueryOptions())
    captured(case, 2.0)
    assert query_timeout(case, QueryOptions()) < 60 < before


def test_the_limit_of_the_user_is_taken_as_it_is(case: Case) -> None:
    captured(case, 100.0)
    assert query_timeout(case, QueryOptions(query_timeout=7.0)) == 7.0


def test_a_hang_never_waits_as_long_as_another_failure(case: Case) -> None:
    observed(case, 600.0)
    hang = query_timeout(case, QueryOptions(), Kind.TIMEOUT)
    assert hang < query_timeout(case, QueryOptions()) / 10
    assert query_timeout(case, QueryOptions(query_timeout=5.0), Kind.TIMEOUT) == 5.0
    assert query_timeout(case, QueryOptions(query_timeout=300.0), Kind.TIMEOUT) == 300.0  # as the user says


def test_a_fresh_interpreter_has_the_time_to_import_torch(case: Case) -> None:
    observed(case, 40.0)
    captured(case, 2.0)
    assert fresh_timeout(case, QueryOptions()) == query_timeout(case, QueryOptions()) + 40.0
    observed(case, 4000.0)
    captured(case, 2.0)
    assert fresh_timeout(case, QueryOptions()) < query_timeout(case, QueryOptions()) + 100.0
    assert fresh_timeout(case, QueryOptions(query_timeout=7.0)) == 7.0
    assert fresh_timeout(case, QueryOptions(), Kind.TIMEOUT) == query_timeout(case, QueryOptions(), Kind.TIMEOUT)


@pytest.mark.parametrize(("accelerator", "at_once"), [(None, 16), ("cuda", 4)])
def test_an_accelerator_gets_few_queries_at_once(case: Case, accelerator: str | None, at_once: int) -> None:
    case.store(ENVIRONMENT, Environment("3.12", "python", "Linux", "2.13.0", accelerator=accelerator))
    with shared_oracles():
        with open_oracle(case, 16) as oracle:
            assert oracle.jobs == at_once
        with open_oracle(case) as same:
            assert same is oracle and same.jobs == at_once
        with open_oracle(case, 1) as one:
            assert one is oracle and one.jobs == 1
