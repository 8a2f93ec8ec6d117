"""Where compiled values begin to differ from eager's, found by compiling with every value as an output."""

import pytest

from repro_kit.runner.program_oracle import ProgramOracle
from texts import program

pytestmark = pytest.mark.torch

#: Takes the wrong operator wherever it meets tanh or max.
WRONG = """
def mine(gm, example_inputs):
    wrong = {torch.tanh: torch.sin, torch.max: torch.min}
    for node in gm.graph.nodes:
        node.target = wrong.get(node.target, node.target)
    gm.recompile()
    return gm
"""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("a = x * 2\nb = torch.tanh(a)\nc = b + a\nd = c.sin()\nreturn (d,)", ["b"]),
        # Two culprits that do not depend on each other, and one that does.
        ("a = torch.tanh(x)\nb = torch.tanh(x + 1)\nc = torch.tanh(a * b)\nreturn (c,)", ["a", "b"]),
        ("a = x * 2\nb = torch.max(a, 1)\nc = b[0]\nd = b[1]\nreturn (c, d)", ["b"]),
        ("a = x * 2\nb = a.shape[0]\nc = torch.tanh(a) * b\nreturn (c,)", ["c"]),
        ("a = torch.empty_like(x)\na[:] = x\na.mul_(2)\nb = torch.tanh(a)\nreturn (b,)", ["b"]),
        ("a = x * 2\nreturn (a,)", []),
    ],
)
def test_the_first_values_that_differ_are_named(oracle: ProgramOracle, body: str, names: list[str]) -> None:
    assert oracle.diverge(program(body, preamble=WRONG), None, timeout=60) == names


@pytest.mark.parametrize(
    "preamble",
    [
        "def mine(gm, example_inputs):\n    raise RuntimeError('no')\n",
        # Right as soon as there is more than one output.
        "def mine(gm, example_inputs):\n"
        "    def run(*args):\n"
        "        found = gm(*args)\n"
        "        return found if len(found) > 1 else (found[0] * 2,)\n"
        "    return run\n",
    ],
)
def test_without_a_difference_there_is_no_hint(oracle: ProgramOracle, preamble: str) -> None:
    text = program("a = x * 2\nb = a + 1\nreturn (b,)", preamble=preamble)
    assert oracle.diverge(text, None, timeout=60) == []


def test_a_difference_in_gradients_only_gives_no_hint(oracle: ProgramOracle) -> None:
    preamble = """
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        return g * 2
def mine(gm, example_inputs):
    return lambda *args: tuple(Wrong.apply(it) for it in gm(*args))
"""
    calls = "x = torch.arange(12.).requires_grad_()\nreturn [(x,)]"
    text = program("a = x * 2\nb = a + 1\nreturn (b,)", calls, preamble, backward="randn")
    assert oracle.diverge(text, None, timeout=60) == []
