"""Which differences eager's own rounding explains, and which it does not, whatever tolerance shows them."""

import pytest

from repro_kit.failure.failure import Status, Verdict
from repro_kit.runner.program_oracle import ProgramOracle
from texts import program, spoiling

pytestmark = pytest.mark.torch

HALF = "x = torch.linspace(1, 2, 300, dtype=torch.float16)\nreturn [(x,)]"
CHAIN = "y = x\n" + "y = y * 1.003 + 0.01\n" * 40 + "return (y,)"
#: As exact as a fused kernel: one rounding at the end.
PRECISE = """
def mine(gm, example_inputs):
    def run(x):
        y = x.double()
        for _ in range(40):
            y = y * 1.003 + 0.01
        return ((yERROR).to(x.dtype),)
    return run
"""
EXACTLY = {"rtol": 0.0, "atol": 0.0}


def judge(oracle: ProgramOracle, text: str) -> Verdict:
    (verdict,) = oracle.check([text], None, timeout=600)
    return verdict


def by_rounding(verdict: Verdict) -> bool:
    return verdict.failure.rounding if verdict.failure else verdict.rounding


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_result_as_close_to_double_precision_as_eager_is_rounding(oracle: ProgramOracle, dtype: str) -> None:
    calls = HALF.replace("float16", dtype)
    right = judge(oracle, program(CHAIN, calls, PRECISE.replace("ERROR", "")))
    assert right.status is Status.PASS and right.rounding
    told = judge(oracle, program(CHAIN, calls, PRECISE.replace("ERROR", ""), **EXACTLY))
    assert told.status is Status.FAIL and by_rounding(told), "a stated tolerance shows it; it is rounding all the same"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_an_error_far_over_eagers_own_is_no_rounding(oracle: ProgramOracle, dtype: str) -> None:
    calls = HALF.replace("float16", dtype)
    for recipe in ({}, EXACTLY):
        wrong = judge(oracle, program(CHAIN, calls, PRECISE.replace("ERROR", " * 1.5"), **recipe))
        assert wrong.status is Status.FAIL and not by_rounding(wrong), recipe


def test_the_last_digit_is_rounding_and_a_few_digits_more_are_not(oracle: ProgramOracle) -> None:
    inexact = {"body": "y = x * 0.7\nreturn (y,)", "calls": "x = torch.rand(100) + 1\nreturn [(x,)]", **EXACTLY}
    assert by_rounding(judge(oracle, spoiling("out * (1 + 2e-7)", **inexact)))
    assert not by_rounding(judge(oracle, spoiling("out * (1 + 2e-5)", **inexact)))
    assert not by_rounding(judge(oracle, spoiling("out * (1 + 2e-7)", **EXACTLY))), "nothing is rounded in a whole sum"
    in_double = spoiling("out * (1 + 1e-10)", calls="x = torch.rand(12, dtype=torch.float64)\nreturn [(x,)]", **EXACTLY)
    assert not by_rounding(judge(oracle, in_double)), "a coarse function in float64 is wrong"


def test_a_sum_may_be_added_term_by_term_and_may_lose_none(oracle: ProgramOracle) -> None:
    one_by_one = {"body": "y = x.sum()\nreturn (y,)", "calls": "x = torch.full((1024,), -0.2)\nreturn [(x,)]"}
    right = judge(oracle, spoiling("sum(args[0].unbind(), torch.zeros(()))", **one_by_one))
    assert right.status is Status.PASS and right.rounding, right
    lost = judge(oracle, spoiling("args[0][1:].sum()", **one_by_one))
    assert lost.status is Status.FAIL and not by_rounding(lost)


def test_choices_that_rounding_decides_at_nearly_all_elements_are_decided_by_it_at_the_others(
    oracle: ProgramOracle,
) -> None:
    flips = {
        "body": "y = torch.where(x / 3 * 3 >= x * 0.9999999, x, x / 2)\nreturn (y,)",
        "calls": "x = torch.rand(20000) + 1\nreturn [(x,)]",
    }
    right = judge(oracle, spoiling("torch.where(out == args[0], args[0] / 2, args[0])", **flips))
    assert right.status is Status.PASS and right.rounding, right
    wrong = judge(oracle, spoiling("torch.where(torch.arange(20000) == 7, -9, out)", **flips))
    assert wrong.status is Status.FAIL and not by_rounding(wrong)


def test_one_wrong_element_does_not_hide_behind_the_large_errors_of_others(oracle: ProgramOracle) -> None:
    mixed = "x = torch.cat([torch.full((50,), 3e4), torch.full((50,), 0.3)]).half()\nreturn [(x,)]"
    text = spoiling("torch.where(torch.arange(100) == 99, out + 1, out)", body="y = x * 0.7\nreturn (y,)", calls=mixed)
    assert not by_rounding(judge(oracle, text.replace("RECIPE = {", "RECIPE = {'rtol': 0.0, 'atol': 0.0, ")))


def test_an_overflow_that_only_eager_has_is_rounding_and_rubbish_in_its_place_is_not(oracle: ProgramOracle) -> None:
    body = "y = (x * 300) / 100\nreturn (y,)"
    calls = "x = torch.linspace(100, 1000, 64).half()\nreturn [(x,)]"
    right = spoiling("(args[0].float() * 300 / 100).half()", body=body, calls=calls)
    assert judge(oracle, right).status is Status.PASS
    rubbish = spoiling("torch.where(out.isinf(), 7.0, out)", body=body, calls=calls)
    assert not by_rounding(judge(oracle, rubbish))
    not_a_number = spoiling("torch.where(out > 100, float('nan'), out)", calls=HALF, body="y = x * 90\nreturn (y,)")
    verdict = judge(oracle, not_a_number)
    assert verdict.status is Status.FAIL and not by_rounding(verdict)


def test_a_tie_may_be_broken_otherwise_and_a_wrong_index_is_a_bug(oracle: ProgramOracle) -> None:
    body, calls = "y = x.argmax(-1)\nreturn (y,)", "x = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]])\nreturn [(x,)]"
    tie = judge(oracle, spoiling("torch.tensor([2, 1])", body=body, calls=calls))
    assert tie.status is Status.PASS and tie.rounding
    wrong = judge(oracle, spoiling("torch.tensor([0, 1])", body=body, calls=calls))
    assert wrong.status is Status.FAIL and not by_rounding(wrong)


def test_booleans_flip_only_where_rounding_decides(oracle: ProgramOracle) -> None:
    body = "y = (x * 3 / 3) > x\nreturn (y,)"
    calls = "x = torch.linspace(0.1, 0.9, 50)\nreturn [(x,)]"
    assert judge(oracle, spoiling("~out", body=body, calls=calls)).status is Status.PASS
    clear = spoiling("~out", body="y = x > 5\nreturn (y,)", calls=calls)
    verdict = judge(oracle, clear)
    assert verdict.status is Status.FAIL and not by_rounding(verdict)


@pytest.mark.parametrize("expression", ["out.double()", "out.sum(0)", "args[0]", "out.t().contiguous().t()"])
def test_another_form_is_never_rounding(oracle: ProgramOracle, expression: str) -> None:
    verdict = judge(oracle, spoiling(expression, body="y = x + 1e-7\nreturn (y,)", **EXACTLY))
    assert verdict.status is Status.FAIL and not by_rounding(verdict)


def test_an_empty_result_agrees(oracle: ProgramOracle) -> None:
    verdict = judge(oracle, spoiling("out * 2", calls="x = torch.ones(0, 4)\nreturn [(x,)]"))
    assert verdict.status is Status.PASS and not verdict.rounding


@pytest.mark.slow
def test_the_setting_that_restores_eagers_rounding_is_measured(oracle: ProgramOracle) -> None:
    body = "a = torch.sin(x) * torch.cos(x)\nb = a * 3.7 + x\ny = torch.tanh(b) * a\nreturn (y,)"
    text = program(body, "x = torch.randn(64, 64).half()\nreturn [(x,)]", backend="inductor")
    explained = oracle.explain_rounding(text, None)
    assert explained is not None and explained["rounding"] and explained["first"]
    assert [(trial["setting"], trial["agrees"]) for trial in explained["tried"]] == [
        ("inductor.emulate_precision_casts=True", True)
    ]
    (row,) = explained["errors"]
    assert row["eager"] is not None and row["compiled"] is not None and row["compiled"] <= row["eager"]


@pytest.mark.parametrize(
    "expression",
    [
        "z.amax(1)",
        "z.aminmax(dim=1)[0]",
        "z.max()",
        "z.nanmedian()",
        "torch.linalg.vector_norm(z, float('inf'), dim=1)",
        "torch.zeros(8).scatter_reduce(0, torch.arange(8).expand(4, 8).flatten() % 8, z.flatten(), 'amax')",
        "torch.where(z == torch.maximum(z, z.flip(1)), z, 0).sum(1)",
    ],
)
def test_the_place_of_a_selected_value_is_not_lost_to_rounding(oracle: ProgramOracle, expression: str) -> None:
    body = f"z = x * 1.003 + 0.01\ny = {expression}\nreturn (y,)"
    calls = "x = torch.randn(4, 8).requires_grad_()\nreturn [(x,)]"
    wrong = spoiling("out + 0.07 * (args[0] - args[0].detach()).sum()", body=body, calls=calls, backward="randn")
    verdict = judge(oracle, wrong)
    assert verdict.status is Status.FAIL and not by_rounding(verdict)
    assert verdict.failure is not None and verdict.failure.difference is not None
    assert "grad" in verdict.failure.difference.where
    right = judge(oracle, spoiling("out * 1", body=body, calls=calls, backward="randn"))
    assert right.status is Status.PASS and not right.note
