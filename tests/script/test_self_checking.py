"""A script that shows nothing itself compares its compiled call with eager."""

import pytest

from repro_kit.script.compile_calls import self_checking

FUNCTION = "import torch\n\ndef f(x):\n    return x + 1\n"
COMPARED = "expected = f(x)\ntorch.testing.assert_close(torch.compile(f{})(x), expected)\n"


@pytest.mark.parametrize(
    ("script", "result"),
    [
        (f"{FUNCTION}x = torch.ones(2)\ntorch.compile(f)(x)", f"{FUNCTION}x = torch.ones(2)\n{COMPARED.format('')}"),
        (f"{FUNCTION}torch.compile(f, dynamic=True)(torch.rand(2))",
         f"{FUNCTION}x = torch.rand(2)\n{COMPARED.format(', dynamic=True')}"),
        (f"{FUNCTION}g = torch.compile(f)\ny = g(torch.ones(2))",
         f"{FUNCTION}x = torch.ones(2)\n{COMPARED.format('')}"),
        ("import torch\n\n@torch.compile(backend='eager')\ndef f(x):\n    return x + 1\nf(torch.ones(2))",
         FUNCTION + "x = torch.ones(2)\n" + COMPARED.format(", backend='eager'")),
        ("import torch\ntorch.compile(lambda x: {x.shape})(torch.ones(2))",
         f"import torch\nf = lambda x: {{x.shape}}\nx = torch.ones(2)\n{COMPARED.format('')}"),
        ("import torch\nmodel = torch.compile(torch.nn.Linear(3, 3))\nfor n in (2, 3):\n    model(torch.ones(n, 3))",
         "import torch\nmodel = torch.nn.Linear(3, 3)\nfor n in (2, 3):\n    x = torch.ones(n, 3)\n"
         "    expected = model(x)\n    torch.testing.assert_close(torch.compile(model)(x), expected)\n"),
    ],
    ids=["at once", "argument made at once", "named", "decorated", "lambda", "in a loop"],
)  # fmt: skip
def test_the_call_becomes_a_comparison(script: str, result: str) -> None:
    assert self_checking(script) == result


@pytest.mark.parametrize(
    "script",
    [
        f"{FUNCTION}g = torch.compile(f)\ng(torch.ones(2))\ng(torch.ones(3))",
        f"{FUNCTION}print(torch.compile(f)(torch.ones(2)))",
        f"{FUNCTION}torch.compile(f)(x=torch.ones(2))",
        FUNCTION,
    ],
    ids=["two calls", "within another call", "by name", "none"],
)
def test_other_scripts_stay(script: str) -> None:
    assert self_checking(script) is None
