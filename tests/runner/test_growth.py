"""Compile time that grows too fast with the number of repetitions of a program."""

import pytest

from repro_kit.bundle.repro.check_program import read_run
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.runner.program_oracle import ProgramOracle
from texts import program

pytestmark = [pytest.mark.torch, pytest.mark.slow]

#: A backend that works for the third power of the size of its graph.
CUBIC = (
    "def mine(gm, example_inputs):\n"
    "    size = len(list(gm.graph.nodes)) - 2\n"
    "    for _ in range(size * size):\n"
    "        sum(range(40 * size))\n"
    "    return gm.forward\n"
)
STEP = "y = torch.relu(x)\nreturn (y,)"
INPUTS = "x = torch.randn(4)\nreturn [(x,)]"


def judge(oracle: ProgramOracle, text: str) -> Verdict:
    (verdict,) = oracle.check([text], None, timeout=600)
    return verdict


def test_a_cubic_pass_is_the_failure(oracle: ProgramOracle) -> None:
    verdict = judge(oracle, program(STEP, INPUTS, CUBIC, growth=2.0))
    assert verdict.status is Status.FAIL and verdict.failure is not None, verdict.note
    assert verdict.failure.kind is Kind.COMPILE_GROWTH
    assert signature_of(verdict.failure).summary().startswith("compile time grows with the power")
    exponent = float(verdict.failure.text.partition("the power ")[2].partition(" ")[0])
    assert 2 < exponent < 4  # other work of the machine bends it; tests/probe/query/test_growth_fit.py is exact
    assert " in mine (" in verdict.failure.text


def test_without_a_compiler_nothing_grows(oracle: ProgramOracle) -> None:
    assert judge(oracle, program(STEP, INPUTS, backend="eager", growth=2.0)).status is Status.PASS


def test_a_backend_of_linear_time_passes(oracle: ProgramOracle) -> None:
    plain = "def mine(gm, example_inputs):\n    return gm.forward\n"
    assert judge(oracle, program(STEP, INPUTS, plain, growth=2.0)).status is Status.PASS


def test_a_compile_that_is_too_slow_once_shows_no_growth(oracle: ProgramOracle) -> None:
    endless = "def mine(gm, example_inputs):\n    while True:\n        pass\n"
    verdict = judge(oracle, program(STEP, INPUTS, endless, growth=2.0))
    assert verdict.status is Status.CANNOT_TELL and verdict.note == "one compile takes more than 4 CPU seconds"


def test_the_verdict_line_of_repro_py_is_read() -> None:
    verdict = read_run(1, "FAIL compile-growth: compile time grows with the power 3 of the repetitions\n", "exit 1")
    assert verdict.failure is not None and verdict.failure.kind is Kind.COMPILE_GROWTH
