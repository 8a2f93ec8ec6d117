"""How long a reduction may take without a deadline of the user's."""

import pytest

from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.stages.minify.progress import deadline_of_program, deadline_of_script


@pytest.mark.parametrize(
    ("failure", "seconds", "deadline"),
    [
        (Failure(Kind.CRASH), 50.0, 1800.0),
        (Failure(Kind.TIMEOUT), 30.0, 150.0),
        (Failure(Kind.DEADLOCK), 30.0, 1800.0),
        (Failure(Kind.COMPILE_GROWTH), 2.0, 60.0),
        (Failure(Kind.COMPILE_GROWTH), 10.0, 80.0),
    ],
)
def test_a_program_whose_queries_are_slow_gets_less_time(failure: Failure, seconds: float, deadline: float) -> None:
    assert deadline_of_program(signature_of(failure), seconds) == deadline


def test_a_script_that_hangs_gets_more_time_than_others() -> None:
    assert (deadline_of_script(Kind.TIMEOUT), deadline_of_script(Kind.CRASH)) == (600.0, 300.0)
