"""A validation that is lost: eager raises, and the compiled program returns."""

import pytest

from repro_kit.bundle.repro.check_program import read_run
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, Strength, signature_of
from repro_kit.runner.program_oracle import ProgramOracle
from texts import program

pytestmark = pytest.mark.torch

#: A backend that computes without a check.
LAX = "def mine(gm, example_inputs):\n    return lambda *args: (torch.zeros(()),)\n"
#: The loss checks its target, and Dynamo's fake tensors cannot.
CHECKED = "y = torch.nn.functional.binary_cross_entropy(torch.ones_like(x) / 2, x)\nreturn (y,)"
OUTSIDE = "x = torch.full((4,), 1.5)\nreturn [(x,)]"


def judge(oracle: ProgramOracle, text: str) -> Verdict:
    (verdict,) = oracle.check([text], None, timeout=600)
    return verdict


def test_eagers_exception_is_the_failure(oracle: ProgramOracle) -> None:
    verdict = judge(oracle, program(CHECKED, OUTSIDE, LAX, validation=True))
    assert verdict.status is Status.FAIL and verdict.failure is not None
    assert verdict.failure.kind is Kind.VALIDATION
    signature = signature_of(verdict.failure)
    assert signature.exceptions == ("RuntimeError",)
    assert signature.summary().startswith("compiled code does not raise eager's RuntimeError: all elements of target")


def test_a_lost_validation_is_told_from_another_one(oracle: ProgramOracle) -> None:
    picks = "y = x[torch.full((1,), 9)]\nreturn (y,)"
    first = judge(oracle, program(CHECKED, OUTSIDE, LAX, validation=True)).failure
    other = judge(oracle, program(picks, OUTSIDE, LAX, validation=True)).failure
    assert first is not None and other is not None
    assert not signature_of(first).matches(signature_of(other), Strength.REBASED)
    assert Signature(Kind.VALIDATION).matches(signature_of(other), Strength.CROSS_VERSION), "a bisection looks for any"


def test_where_both_raise_nothing_is_lost(oracle: ProgramOracle) -> None:
    verdict = judge(oracle, program(CHECKED, OUTSIDE, validation=True))
    assert verdict.status is Status.PASS and verdict.note == "both raise"
    refusing = "def mine(gm, example_inputs):\n    raise KeyError('the compiler refuses')\n"
    assert judge(oracle, program(CHECKED, OUTSIDE, refusing, validation=True)).status is Status.PASS


def test_where_eager_raises_nothing_there_is_nothing_to_lose(oracle: ProgramOracle) -> None:
    inside = OUTSIDE.replace("1.5", "0.5")
    assert judge(oracle, program(CHECKED, inside, LAX, validation=True)).status is Status.PASS


def test_an_exception_while_the_inputs_are_made_is_no_evidence(oracle: ProgramOracle) -> None:
    broken = "x = torch.zeros(3).view(7)\nreturn [(x,)]"
    assert judge(oracle, program(CHECKED, broken, LAX, validation=True)).status is Status.INVALID


def test_eager_is_right_to_raise(oracle: ProgramOracle) -> None:
    (verdict,) = oracle.eager([program(CHECKED, OUTSIDE, LAX, validation=True)], None)
    assert verdict.status is Status.PASS


def test_the_values_before_the_exception_are_recorded(oracle: ProgramOracle) -> None:
    verdict, calls = oracle.record(program("a = x + 1\n" + CHECKED, OUTSIDE, LAX, validation=True), None)
    assert verdict.status is Status.PASS and {"x", "a"} <= calls[0].keys()


def test_the_output_of_a_repro_names_eagers_exception() -> None:
    output = "FAIL validation: the compiled graph returns, eager raises RuntimeError: all elements of target are wrong"
    failure = read_run(1, output, "").failure
    assert failure is not None and failure.kind is Kind.VALIDATION
    assert [(link.type, link.message) for link in failure.exceptions] == [
        ("RuntimeError", "all elements of target are wrong")
    ]
