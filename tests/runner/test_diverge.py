"""Where compiled values begin to differ from eager's, found by compiling with every value as an output."""

import pytest

from repro_kit.graph import parse
from repro_kit.graph.suspects import suspects
from repro_kit.runner.program_oracle import Divergence, ProgramOracle
from texts import program

pytestmark = pytest.mark.torch

#: Takes the wrong operator wherever it meets tanh or max.
WRONG = """
def mine(gm, example_inputs):
    wrong = {torch.tanh: torch.sin, torch.tanh_: torch.sin_, torch.max: torch.min}
    for node in gm.graph.nodes:
        node.target = wrong.get(node.target, node.target)
    gm.recompile()
    return gm
"""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("a = x * 2\nb = torch.tanh(a)\nc = b + a\nd = c.sin()\nreturn (d,)", ("b",)),
        # Two culprits that do not depend on each other, and one that does.
        ("a = torch.tanh(x)\nb = torch.tanh(x + 1)\nc = torch.tanh(a * b)\nreturn (c,)", ("a", "b")),
        ("a = x * 2\nb = torch.max(a, 1)\nc = b[0]\nd = b[1]\nreturn (c, d)", ("b",)),
        ("a = x * 2\nb = a.shape[0]\nc = torch.tanh(a) * b\nreturn (c,)", ("c",)),
        ("a = torch.empty_like(x)\na[:] = x\na.mul_(2)\nb = torch.tanh(a)\nreturn (b,)", ("b",)),
        # A value counts as it was before another statement writes to it.
        ("a = x * 2\nb = torch.tanh_(a)\nc = b + 1\nreturn (c,)", ("b",)),
        ("a = torch.tanh(x)\nb = a.mul_(2)\nreturn (b,)", ("a",)),
        ("a = x * 2\nb = a[0]\nc = torch.tanh_(b)\nreturn (a,)", ("c",)),
        ("a = x * 2\nreturn (a,)", ()),
    ],
)
def test_the_first_values_that_differ_are_named(oracle: ProgramOracle, body: str, names: tuple[str, ...]) -> None:
    found = oracle.diverge(program(body, preamble=WRONG), None, timeout=600)
    assert (found.names, found.backward) == (names, False)
    assert not names or "x * 2" not in body or found.right[:1] == ("a",) != names


@pytest.mark.parametrize(
    ("body", "names", "harmless"),
    [
        # Multiplied by zero, what is computed from it is right: another statement is the first that shows.
        ("a = torch.tanh(x)\nb = a * 0\nc = torch.max(b + x, 1)\nreturn (c[0],)", ("c",), ("a",)),
        ("a = torch.tanh(x)\nb = a.abs() > -1\nc = torch.max(x, 1)\nreturn (b, c[0])", ("c",), ("a",)),
        ("a = torch.tanh(x)\nb = a * 0 + x\nreturn (b,)", (), ("a",)),
        # Either hides that the other is wrong.
        (
            "y = x * 0 + 3\na = torch.tanh(y)\nb = torch.tanh(y)\nc = torch.maximum(a, b) > 0.5\nreturn (c,)",
            ("a", "b"),
            (),
        ),
    ],
)
def test_a_wrong_value_that_changes_no_result_is_told_apart(
    oracle: ProgramOracle, body: str, names: tuple[str, ...], harmless: tuple[str, ...]
) -> None:
    found = oracle.diverge(program(body, preamble=WRONG), None, timeout=600)
    assert (found.names, found.harmless) == (names, harmless)


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
    assert oracle.diverge(text, None, timeout=600) == Divergence()


#: Takes the wrong operator for tanh, and for exp where the graph returns it: to watch exp changes what is returned.
SHY = """
def mine(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.target is torch.tanh or (node.target is torch.exp and any(user.op == 'output' for user in node.users)):
            node.target = torch.cos
    gm.recompile()
    return gm
"""


def test_a_value_that_is_wrong_only_when_it_is_watched_is_not_named(oracle: ProgramOracle) -> None:
    text = program("a = torch.exp(x)\nb = a * 0.01\nc = torch.tanh(b)\nreturn (c,)", preamble=SHY)
    assert oracle.diverge(text, None, timeout=600) == Divergence(("c",), right=("b",))


#: Backward of these operators gives half of the gradient: of a product, and of a cosine.
WRONG_BACKWARD = """
class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        return g / 2
def half(x):
    return Half.apply(x)
def mine(gm, example_inputs):
    for node in list(gm.graph.nodes):
        if node.target in (torch.mul, torch.cos):
            with gm.graph.inserting_after(node):
                wrong = gm.graph.call_function(half, (node,))
            node.replace_all_uses_with(wrong, delete_user_cb=lambda user: user is not wrong)
    gm.recompile()
    return gm
"""
TRAINED = "x = torch.arange(1., 13.).reshape(3, 4).requires_grad_()\nreturn [(x,)]"


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("a = torch.sin(x)\nb = torch.cos(a)\nc = b.exp()\nreturn (c,)", ("b",)),
        # The backward goes from the last statement to the first, so the last culprit comes first.
        ("a = torch.cos(x)\nb = a + 1\nc = torch.cos(b)\nreturn (c,)", ("c",)),
        # The same value is read by a right and by a wrong statement.
        ("a = torch.sin(x)\nb = torch.exp(a)\nc = torch.mul(a, a)\nreturn (b + c,)", ("c",)),
        # Two culprits that do not depend on each other, and a value that is no tensor between.
        ("a = x.split(2, 1)\nb = a[0]\nc = torch.cos(b)\nd = a[1]\ne = torch.cos(d)\nreturn (c, e)", ("e", "c")),
        # What is written to is left out, with its views.
        ("a = torch.sin(x)\na.add_(1)\nb = a[0]\nc = torch.cos(b)\nreturn (c,)", ("c",)),
        ("a = torch.sin(x)\nreturn (a.exp(),)", ()),
    ],
)
def test_the_first_statement_with_a_wrong_backward_is_named(
    oracle: ProgramOracle, body: str, names: tuple[str, ...]
) -> None:
    text = program(body, TRAINED, WRONG_BACKWARD, backward="randn")
    assert oracle.diverge(text, None, timeout=600) == Divergence(names, backward=bool(names))


def test_the_wrong_and_the_right_results_leave_few_statements(oracle: ProgramOracle) -> None:
    """The gradient of `x` is small, and its error far below any fixed tolerance."""
    text = program(
        "a = (x * 1e-7 + 1) @ v\nb = torch.cos(a)\nc = b @ w\nd = c.sin()\nreturn (d,)",
        "torch.manual_seed(0)\nx, v, w = (torch.randn(4, 4).requires_grad_() for _ in range(3))\nreturn [(x, v, w)]",
        WRONG_BACKWARD,
        backward="randn",
        parameters="x, v, w",
    )
    (verdict,) = oracle.check([text], None)
    assert (verdict.wrong, verdict.right) == (("grad of x", "grad of v"), ("output 0", "grad of w"))
    found = suspects(parse(text), verdict.wrong, verdict.right)
    assert [parse(text).graph.statements[at].target for at in found] == ["a", "b", "c"]
