"""A script that compiles too often is reduced to one that does so because of the same form of guard."""

from dataclasses import replace

import pytest

from repro_kit.failure.failure import Failure, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, signature_of
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.script import Script
from repro_kit.stages.minify.source_oracle import Expected, SourceOracle

pytestmark = pytest.mark.torch

#: `changes` is what another call sees, `read` what the compiled function asks for.
SCRIPT = """
import torch

torch._dynamo.config.recompile_limit = {limit}

class Stage:
    name = "stage"

count = 0

@torch.compile(backend="eager", fullgraph=True, dynamic=False)
def scaled(stage, x):
    if {read}:
        x = x - 1
    return torch.relu(x)

for number in range(4):
    {changes}
    scaled(Stage, torch.ones({size}))
"""
BY_TEXT = {"read": "stage.name == 'last'", "changes": "Stage.name = f'stage{number}'", "size": "3", "limit": 2}
BY_SIZE = {"read": "False", "changes": "pass", "size": "number + 2, 3", "limit": 2}
BY_GLOBAL = {"read": "count == 100", "changes": "count = number"}


def judge(oracle: ProgramOracle, text: str) -> SourceOracle:
    """What must be shown by a candidate for the script `text`."""
    script = Script(text)
    whole = SourceOracle(oracle, Expected(signature_of(Failure(Kind.DYNAMO_ERROR))), 600)
    (seen,) = whole.runs([script])
    assert seen.verdict.status is Status.FAIL and seen.verdict.failure is not None, seen.verdict
    return SourceOracle(oracle, Expected(signature_of(seen.verdict.failure), causes=seen.causes), 600)


@pytest.mark.parametrize(
    ("original", "change", "alike"),
    [
        (BY_TEXT, {"limit": 1, "changes": "Stage.name = str(number)", "read": "stage.name"}, True),
        (BY_TEXT, BY_GLOBAL, False),
        (BY_TEXT, {"changes": "Stage.name = number"}, False),
        (BY_TEXT, {"changes": "name = f'stage{number}'", "read": "name"}, False),
        (BY_TEXT, BY_SIZE, False),
        (BY_TEXT, {"limit": 0}, False),
        (BY_SIZE, {"limit": 1, "size": "number"}, True),
        (BY_SIZE, {**BY_GLOBAL, "size": "3"}, False),
        (BY_SIZE, {"size": "3, dtype=[torch.float32, torch.float64, torch.int32, torch.int64][number]"}, False),
        (BY_SIZE, {"limit": 0}, False),
    ],
)
def test_a_candidate_reaches_the_limit_by_the_form_of_guard_of_the_script(
    oracle: ProgramOracle, original: dict[str, object], change: dict[str, object], alike: bool
) -> None:
    candidate = SCRIPT.format(**{**original, **change})
    (answer,) = judge(oracle, SCRIPT.format(**original)).check([Script(candidate)])
    assert answer.outcome is (RunOutcome.FAILS_ALIKE if alike else RunOutcome.FAILS_OTHERWISE), answer
    assert alike or answer.note == "the same failure with another cause"


def test_the_guards_of_another_function_are_no_cause(oracle: ProgramOracle) -> None:
    """`count` makes another function compile twice; that is not what reaches the limit."""
    also = "torch.compile(lambda x: x + count, backend='eager')(torch.ones(2)) if number < 2 else None"
    changes = f"count = number; {BY_TEXT['changes']}; {also}"
    of_script = judge(oracle, SCRIPT.format(**{**BY_TEXT, "changes": changes}))
    (answer,) = of_script.check([Script(SCRIPT.format(**{**BY_TEXT, **BY_GLOBAL}))])
    assert answer.outcome is RunOutcome.FAILS_OTHERWISE


def test_a_cause_is_expected_where_the_script_has_one() -> None:
    expected = Expected(signature_of(Failure(Kind.RECOMPILES)), causes=frozenset({"size", "dtype"}))
    assert expected.is_caused_by(frozenset({"size"}))
    assert not expected.is_caused_by(frozenset({"size", "rank"})) and not expected.is_caused_by(frozenset())
    assert replace(expected, causes=frozenset()).is_caused_by(frozenset())
