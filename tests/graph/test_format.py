"""Text to program and back."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings

from repro_kit.artefact.plain import runnable
from repro_kit.errors import ReproKitError
from repro_kit.graph import (
    Data,
    DynamicMark,
    OpaqueInput,
    Strided,
    TensorInput,
    parse,
    render,
    size,
    without_marks,
)
from repro_kit.recipe import Recipe
from strategies import functions, programs

TEXT = '''"""Free text."""
# repro-kit program 1
import torch
from torch import device, inf, nan
import torch._inductor.inductor_prims

RECIPE = {'backend': 'my_backend', 'dynamic': True}

# why
@register
def my_backend(gm, example_inputs):
    # a comment
    return gm.forward

TABLE = """
  verbatim
"""

def unused(x):
    return x

def body_0(x):
    relu = torch.relu(x)
    return [relu, (x, None)]


def graph(s0, x: "f32[3]", w):
    # a comment
    mul: "f32[3]" = x * w;  x = None
    mul += 1;  iadd = mul;  mul = None
    iadd[(slice(None, None, None),)] = 0;  setitem = iadd;  setitem = None
    _foreach_add_ = torch._foreach_add_([iadd], 1.0);  _foreach_add_ = w = None
    cond = torch.ops.higher_order.cond(
        True, body_0, body_0, (iadd,));  iadd = None
    getitem = cond[0];  cond = None
    return (getitem, s0)


def calls():
    s0 = 5
    base = torch.randn(40)
    x = base.as_strided((5, 4), (8, 1), 2).requires_grad_()
    w = torch.nn.Parameter(load("w.pt"))
    odd = torch.nested.nested_tensor([base])
    torch._dynamo.mark_dynamic(x, 0)
    return [(s0, x, w), (6, x, odd)]


if __name__ == "__main__":
    print("not a part")
'''


def test_the_preamble_does_not_import_torch_again() -> None:
    text = "import torch\nRECIPE = {}\nimport torch\nimport re\nS = 1\ndef graph(x):\n    return (x,)\n"
    program = parse(text + "def calls():\n    x = torch.ones(1)\n    return [(x,)]\n")
    assert program.preamble == "import re\n\nS = 1"
    assert parse(render(program)) == program


def test_what_a_text_means():
    program = parse(TEXT)
    assert program.doc == "Free text."
    assert program.imports == ("import torch._inductor.inductor_prims",)
    assert program.recipe == Recipe(backend="my_backend", dynamic=True)
    assert program.preamble.startswith("# why\n@register\ndef my_backend") and "  verbatim" in program.preamble
    assert "def unused" in program.preamble
    assert [body.name for body in program.bodies] == ["body_0"]
    assert [statement.line for statement in program.graph.statements] == [
        "mul = x * w",
        "mul += 1",
        "iadd = mul",
        "iadd[slice(None, None, None),] = 0",
        "setitem = iadd",
        "_foreach_add_ = torch._foreach_add_([iadd], 1.0)",
        "cond = torch.ops.higher_order.cond(True, body_0, body_0, (iadd,))",
        "getitem = cond[0]",
    ]
    assert size(program) == 6
    assert program.stored == ("w.pt",)
    assert program.calls == (("s0", "x", "w"), ("s0_", "x", "odd"))
    assert program.inputs[2] == TensorInput(
        "x", Data("view", None, ("base",)), Strided((5, 4), (8, 1), 2), None, None, True
    )
    assert isinstance(program.inputs[4], OpaqueInput) and isinstance(program.inputs[5], DynamicMark)
    assert without_marks(program).inputs == (*program.inputs[:5], program.inputs[6])


def test_a_text_survives():
    program = parse(TEXT)
    text = render(program)
    assert parse(text) == program
    assert render(parse(text)) == text
    assert "def load(name):" in text and "__main__" not in text
    whole = runnable(program)
    assert parse(whole) == program and whole.startswith(text) and whole.count("__main__") == 1
    ast.parse(whole)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def (:", "line 1"),
        ("x = 1", "no function `graph`"),
        ("# repro-kit program 9\n", "Upgrade"),
        (
            "def graph(x):\n    if x:\n        pass\n    return x\ndef calls():\n    return [(1,)]",
            "Line 2.*straight-line",
        ),
        ("def graph(x):\n    return x\ndef calls():\n    return [(1, 2)]", "tuple of 1 arguments"),
        ("def graph(x):\n    return x\ndef calls():\n    return [(y,)]", "passes `y`"),
        (
            "def graph(x):\n    y = 1\n    y = x\n    return y\ndef calls():\n    return [(1,)]",
            "Line 3.*assigned twice",
        ),
        ("RECIPE = f()\ndef graph(x):\n    return x\ndef calls():\n    return [(1,)]", "Line 1.*literal"),
        ("RECIPE = {'rtol': 'a'}\ndef graph(x):\n    return x\ndef calls():\n    return [(1,)]", "Line 1.*literal"),
    ],
)
def test_a_text_that_is_no_program_is_refused_with_its_line(text, message):
    with pytest.raises(ReproKitError, match=message):
        parse(text)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_every_program_survives_its_text(program):
    assert parse(render(program)) == program
    assert parse(render(program)) == program


@settings(max_examples=60, deadline=None)
@given(functions("graph", ["x", "y"]))
def test_substitution_is_renaming(function):
    for statement in function.statements:
        renamed = statement.substitute({"x": "größer"})
        assert ast.dump(renamed.node) == ast.dump(statement.node).replace("id='x'", "id='größer'")


def test_a_buffer_survives() -> None:
    text = "import torch\nRECIPE = {}\ndef graph(seen):\n    add_ = seen.add_(1)\n    return (add_,)\n"
    program = parse(text + "def calls():\n    seen = torch.nn.Buffer(torch.zeros(1))\n    return [(seen,), (seen,)]\n")
    (seen,) = program.inputs
    assert isinstance(seen, TensorInput) and seen.buffer and seen.line == "seen = torch.nn.Buffer(torch.zeros(1))"
    assert parse(render(program)) == program
