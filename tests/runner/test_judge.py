"""What is a failure and what is not, judged on programs whose backend spoils the result in one way."""

from pathlib import Path

import pytest

from repro_kit.failure.failure import Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.runner.program_oracle import ProgramOracle
from texts import program, spoiling

pytestmark = pytest.mark.torch

LEAF = "x = torch.arange(12.).reshape(3, 4).requires_grad_()\nreturn [(x,)]"
NOISE = """
@torch.library.custom_op("repro_kit_test::noise", mutates_args=())
def noise(x: torch.Tensor) -> torch.Tensor:
    import os
    return x + int.from_bytes(os.urandom(4), "little")
@noise.register_fake
def _(x):
    return torch.empty_like(x)
"""


def judge(oracle: ProgramOracle, text: str) -> Verdict:
    (verdict,) = oracle.check([text], None, timeout=600)
    return verdict


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("out * 1.5", "value"),
        ("out / (out - 1)", "value"),
        ("out + (out > 6) * float('nan')", "nan"),
        ("out.double()", "dtype"),
        ("out.sum(0)", "shape"),
        ("out.t().contiguous().t()", "stride"),
        ("out.requires_grad_()", "requires_grad"),
    ],
)
def test_a_spoiled_output_is_an_accuracy_failure(oracle: ProgramOracle, expression: str, kind: str) -> None:
    verdict = judge(oracle, spoiling(expression))
    assert verdict.status is Status.FAIL
    assert verdict.failure is not None and verdict.failure.difference is not None
    assert verdict.failure.kind is Kind.ACCURACY
    assert verdict.failure.phase is Phase.COMPARE
    assert (verdict.failure.difference.kind, verdict.failure.difference.where) == (kind, "output 0")


def test_an_output_that_is_an_input_by_mistake_is_an_alias_failure(oracle: ProgramOracle) -> None:
    verdict = judge(oracle, spoiling("args[0]", body="y = x.clone()\nreturn (y,)"))
    assert verdict.failure is not None and verdict.failure.difference is not None
    assert (verdict.failure.difference.kind, verdict.failure.difference.where) == ("alias", "output 0")


def test_the_size_of_a_difference_is_reported(oracle: ProgramOracle) -> None:
    verdict = judge(oracle, spoiling("out + (out == 12) * 6"))
    assert verdict.failure is not None and verdict.failure.difference is not None
    difference = verdict.failure.difference
    assert (difference.max_abs, difference.max_rel) == (6.0, 0.5)
    assert difference.fraction == pytest.approx(1 / 12)
    assert (difference.index, difference.eager, difference.compiled) == ((2, 3), "12.0", "18.0")


def test_every_kind_of_difference_of_a_run_is_told(oracle: ProgramOracle) -> None:
    failure = judge(oracle, spoiling("(out * 2).double(), args[0] + 2", body="y = x + 1\nreturn (y, y * 1)")).failure
    assert failure is not None and failure.difference is not None
    assert failure.difference.kind == "dtype" and [it.kind for it in failure.also] == ["value"]


def test_an_unspoiled_program_passes(oracle: ProgramOracle) -> None:
    assert judge(oracle, spoiling("out", calls=LEAF, backward="randn")).status is Status.PASS


def test_a_wrong_gradient_is_named_after_its_input(oracle: ProgramOracle) -> None:
    preamble = """
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        return g * 2
"""
    for backward in ("sum", "randn"):
        verdict = judge(oracle, spoiling("Wrong.apply(out)", calls=LEAF, backward=backward, preamble=preamble))
        assert verdict.failure is not None and verdict.failure.difference is not None
        assert (verdict.failure.difference.kind, verdict.failure.difference.where) == ("value", "grad of x")


def test_a_lost_mutation_of_an_input_is_seen(oracle: ProgramOracle) -> None:
    text = spoiling("[out.clone(), args[0].sub_(1)][0]", body="x.add_(1)\ny = x * 2\nreturn (y,)")
    verdict = judge(oracle, text)
    assert verdict.failure is not None and verdict.failure.difference is not None
    assert verdict.failure.difference.where == "x after the call"


def test_the_second_of_two_calls_is_judged_too(oracle: ProgramOracle) -> None:
    text = spoiling(
        "out + (args[0].numel() == 8)",
        calls="x = torch.ones(4)\nz = torch.ones(8)\nreturn [(x,), (z,)]",
        dynamic=True,
    )
    verdict = judge(oracle, text.replace("def run(*args)", "def run(*args, **_)").replace("args[0]", "args[-1]"))
    assert verdict.failure is not None and verdict.failure.difference is not None
    assert verdict.failure.difference.where == "call 1, output 0"


def test_a_program_that_differs_from_itself_in_eager_is_not_judged(oracle: ProgramOracle) -> None:
    text = program("y = torch.ops.repro_kit_test.noise(x)\nreturn (y,)", preamble=NOISE)
    verdict = judge(oracle, text)
    assert verdict.status is Status.PASS
    assert "eager differs from itself at output 0" in verdict.note


def test_rounding_is_forgiven_where_eager_is_no_closer_to_the_truth(oracle: ProgramOracle) -> None:
    chain = "y = x\n" + "y = y * 1.003 + 0.01\n" * 40 + "return (y,)"
    calls = "x = torch.linspace(1, 2, 300, dtype=torch.float16)\nreturn [(x,)]"
    precise = """
def mine(gm, example_inputs):
    def run(x):
        y = x.double()
        for _ in range(40):
            y = y * 1.003 + 0.01
        return (y.half()FACTOR,)
    return run
"""
    assert judge(oracle, program(chain, calls, precise.replace("FACTOR", ""))).status is Status.PASS
    assert judge(oracle, program(chain, calls, precise.replace("FACTOR", " * 1.2"))).status is Status.FAIL


def test_without_check_values_do_not_count(oracle: ProgramOracle) -> None:
    assert judge(oracle, spoiling("out * 2", check=False)).status is Status.PASS


def test_a_given_tolerance_is_obeyed(oracle: ProgramOracle) -> None:
    assert judge(oracle, spoiling("out * 1.01", rtol=0.05, atol=0.0)).status is Status.PASS
    assert judge(oracle, spoiling("out * 1.01", rtol=0.001, atol=0.0)).status is Status.FAIL
    last_digit = spoiling("out * (1 + 2e-7)", rtol=0.0, atol=0.0)
    assert judge(oracle, last_digit).status is Status.FAIL, "who states a tolerance means it"


def test_a_tolerance_is_named_where_eagers_own_rounding_exceeds_the_usual_one(oracle: ProgramOracle) -> None:
    """The bug must show under it, and a result that is as good as eager's must not."""
    chain = "y = x\n" + "y = y * 1.003 + 0.01\n" * 40 + "return (y,)"
    calls = "x = torch.linspace(1, 2, 300, dtype=torch.float16)\nreturn [(x,)]"
    precise = """
def mine(gm, example_inputs):
    def run(x):
        y = x.double()
        for _ in range(40):
            y = y * 1.003 + 0.01
        return ((yFACTOR).half(),)
    return run
"""
    wrong = judge(oracle, program(chain, calls, precise.replace("FACTOR", " * 1.2")))
    assert wrong.failure is not None and wrong.failure.tolerance is not None
    rtol, atol = wrong.failure.tolerance
    for factor, status in ((" * 1.2", Status.FAIL), ("", Status.PASS)):
        text = program(chain, calls, precise.replace("FACTOR", factor), rtol=rtol, atol=atol)
        assert judge(oracle, text).status is status
    usual = judge(oracle, program(chain, calls, precise.replace("FACTOR", ""), rtol=1e-3, atol=1e-5))
    assert usual.status is Status.FAIL
    plain = judge(oracle, spoiling("out * 1.5"))
    assert plain.failure is not None and plain.failure.tolerance is None


DROPOUT = "y = torch.nn.functional.dropout(torch.relu(x), 0.5, True)\nreturn (y,)"


@pytest.mark.slow
def test_other_random_numbers_are_not_wrong_numbers(oracle: ProgramOracle) -> None:
    verdict = judge(oracle, program(DROPOUT, backend="inductor"))
    assert verdict.status is Status.PASS
    assert "fallback_random" in verdict.note and "own random numbers would not show" in verdict.note


@pytest.mark.slow
def test_a_bug_beside_random_numbers_asks_for_eagers(oracle: ProgramOracle) -> None:
    text = program(
        DROPOUT,
        "x = torch.randn(32, 32)\nreturn [(x,)]",
        backend="inductor",
        config={"inductor.cpp.inject_relu_bug_TESTING_ONLY": "accuracy"},
    )
    verdict = judge(oracle, text)
    assert verdict.status is Status.FAIL and verdict.fallback_random
    asked = judge(oracle, text.replace("'config'", "'fallback_random': True, 'config'"))
    assert asked.status is Status.FAIL and not asked.fallback_random


def test_a_bug_apart_from_random_numbers_does_without_eagers(oracle: ProgramOracle) -> None:
    """Random numbers are drawn, but no result depends on them."""
    verdict = judge(oracle, spoiling("out * 2", body="z = torch.rand(3)\ny = x + 1\nreturn (y,)"))
    assert verdict.status is Status.FAIL and not verdict.fallback_random


@pytest.mark.slow
def test_a_bug_planted_in_inductor_is_found(oracle: ProgramOracle) -> None:
    body = "y = torch.relu(x)\nreturn (y,)"
    setting = "inductor.cpp.inject_relu_bug_TESTING_ONLY"
    right, wrong, uncompilable = oracle.check(
        [
            program(body, backend="inductor"),
            program(body, backend="inductor", config={setting: "accuracy"}),
            program(body, backend="inductor", config={setting: "compile_error"}),
        ],
        None,
    )
    assert right.status is Status.PASS
    assert wrong.failure is not None and wrong.failure.kind is Kind.ACCURACY
    assert uncompilable.failure is not None and uncompilable.failure.kind is Kind.COMPILE_ERROR


def test_inputs_are_exact_however_coarse_their_dtype_is(oracle: ProgramOracle, inputs: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save(torch.rand(64, 64).bfloat16(), inputs / "x.pt")
    load = "import pathlib\ndef load(name):\n    return torch.load(pathlib.Path(__file__).parent / 'inputs' / name)\n"
    for source in ('load("x.pt")', "torch.rand(64, 64, dtype=torch.bfloat16)"):
        text = spoiling(
            "out * 1.003", preamble=load, body="y = x.float() * 2\nreturn (y,)", calls=f"x = {source}\nreturn [(x,)]"
        )
        (verdict,) = oracle.check([text], inputs, timeout=600)
        assert verdict.status is Status.FAIL, source
