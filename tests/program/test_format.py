"""Text to program and back."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.errors import ReproKitError
from repro_kit.model.recipe import Autocast, Recipe
from repro_kit.program import (
    Data,
    Function,
    Mark,
    OpaqueInput,
    Program,
    ScalarInput,
    Statement,
    Strided,
    TensorInput,
    parse,
    render,
    size,
    without_marks,
)
from repro_kit.program.statement import canonical

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


def test_what_a_text_means():
    program = parse(TEXT)
    assert program.doc == "Free text."
    assert program.imports == ("import torch._inductor.inductor_prims",)
    assert program.recipe == Recipe(backend="my_backend", dynamic=True)
    assert program.preamble.startswith("# why\n@register\ndef my_backend") and "  verbatim" in program.preamble
    assert "def unused" in program.preamble
    assert [body.name for body in program.bodies] == ["body_0"]
    assert [it.line for it in program.graph.statements] == [
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
    assert isinstance(program.inputs[4], OpaqueInput) and isinstance(program.inputs[5], Mark)
    assert without_marks(program).inputs == (*program.inputs[:5], program.inputs[6])


def test_a_text_survives():
    program = parse(TEXT)
    text = render(program)
    assert parse(text) == program
    assert render(parse(text)) == text
    assert "def load(name):" in text and text.count("__main__") == 1
    ast.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def (:", "line 1"),
        ("x = 1", "no function `graph`"),
        ("# repro-kit program 9\n", "upgrade"),
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


SIZES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
NUMBERS = st.integers(-9, 9) | st.floats(allow_nan=False) | st.booleans()


@st.composite
def data(draw):
    kind = draw(st.sampled_from(["randn", "rand", "zeros", "ones", "empty", "full", "randint", "arange", "load"]))
    sizes = draw(SIZES)
    match kind:
        case "full":
            return Data("full", sizes, (draw(NUMBERS),))
        case "randint":
            return Data("randint", sizes, (0, draw(st.integers(1, 9))))
        case "load":
            return Data("load", None, ("v.pt",))
    return Data(kind, sizes)


@st.composite
def tensors(draw, name):
    values = draw(data())
    loaded = values.kind == "load"
    return TensorInput(
        name,
        values,
        draw(st.none() | st.builds(Strided, SIZES, SIZES, st.integers(0, 3))),
        None if loaded else draw(st.sampled_from([None, "torch.float16", "torch.int64"])),
        None if loaded else draw(st.sampled_from([None, "cuda", "cuda:1"])),
        draw(st.booleans()),
        draw(st.booleans()),
    )


EXPRESSIONS = [
    "torch.relu({a})",
    "{a} + {b}",
    "{a}[0]",
    "{a}[(slice(None, None, 2), None, ...)]",
    "{a}.view(-1, {b}.size(0))",
    "-{a} ** 2",
    "torch.cat([{a}, {b}], dim=-1)",
    "torch.full((2,), inf)",
    "torch.ops.aten.add.Tensor({a}, {b}, alpha=1.5)",
    "'größe {a}'",
    "[it + {a} for it in {b}]",
]
EFFECTS = ["{a}[0] = {b}", "{a} += {b}", "torch._C._set_grad_enabled(False)", "{a}.add_({b})"]


@st.composite
def functions(draw, name, params):
    names, statements = list(params), []
    for at in range(draw(st.integers(0, 6))):
        template = draw(st.sampled_from(EXPRESSIONS + EFFECTS))
        text = template.format(a=draw(st.sampled_from(names)), b=draw(st.sampled_from(names)))
        node = ast.parse(text).body[0]
        target = None if template in EFFECTS else f"v{at}"
        statements.append(canonical(target, node.value if isinstance(node, ast.Expr) else node))
        names += [target] if target else []
    returned = draw(st.sampled_from(["({a},)", "[{a}, {b}]", "(({a}, None), {b})", "{a}"]))
    text = returned.format(a=draw(st.sampled_from(names)), b=draw(st.sampled_from(names)))
    return Function(name, tuple(params), tuple(statements), canonical(None, ast.parse(text, mode="eval").body))


@st.composite
def programs(draw):
    params = [f"x{at}" for at in range(draw(st.integers(1, 3)))]
    graph = draw(functions("graph", params))
    bodies = draw(st.lists(st.sampled_from(["body_0", "body_1"]), unique=True))
    for name in bodies:
        call = Statement(f"hop_{name}", f"torch.ops.higher_order.cond(True, {name}, {name}, ({params[0]},))")
        graph = graph.with_(statements=(*graph.statements, call))
    inputs = [draw(tensors(name) | st.builds(ScalarInput, st.just(name), NUMBERS | st.none())) for name in params]
    return Program(
        graph=graph,
        bodies=tuple(draw(functions(name, ["a", "b"])) for name in bodies),
        inputs=tuple(inputs),
        calls=(tuple(params),) * draw(st.integers(1, 2)),
        recipe=Recipe(
            dynamic=draw(st.none() | st.booleans()),
            autocast=draw(st.none() | st.just(Autocast(dtype="float16"))),
            config=draw(st.dictionaries(st.sampled_from(["inductor.a", "dynamo.b"]), NUMBERS | st.text())),
        ),
        preamble=draw(
            st.sampled_from(["", "A = 1", "# note\n@torch.library.custom_op('a::b', mutates_args=())\ndef f(x): ..."])
        ),
        doc=draw(st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"))),
    )


@settings(max_examples=150, deadline=None)
@given(programs())
def test_every_program_survives_its_text(program):
    assert parse(render(program)) == program
    assert parse(render(program, footer=False)) == program


@settings(max_examples=60, deadline=None)
@given(functions("graph", ["x", "y"]))
def test_substitution_is_renaming(function):
    for statement in function.statements:
        renamed = statement.substitute({"x": "größer"})
        assert ast.dump(renamed.node) == ast.dump(statement.node).replace("id='x'", "id='größer'")
