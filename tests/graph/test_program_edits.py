"""Edits of programs, on what Dynamo writes."""

from __future__ import annotations

import ast

import pytest

from repro_kit.graph import Program, ScalarInput, TensorInput, parse, render
from repro_kit.graph.edits import Edit, apply, set_input
from repro_kit.graph.effects import Base, op_name
from repro_kit.graph.inputs import parse_input
from repro_kit.graph.program import Statement
from repro_kit.graph.values import ScalarRecord, TensorRecord, constants, records

VMAP = """
    lazy_load_decompositions = torch._functorch.predispatch.lazy_load_decompositions()
    _vmap_increment_nesting = torch._functorch.predispatch._vmap_increment_nesting(4, 'error')
    _add_batch_dim = torch._functorch.predispatch._add_batch_dim(x, 0, 1)
    sin = _add_batch_dim.sin()
    _remove_batch_dim = torch._functorch.predispatch._remove_batch_dim(sin, 1, 4, 0)
    _vmap_decrement_nesting = torch._functorch.predispatch._vmap_decrement_nesting()
    dead = x + 1
    return (_remove_batch_dim,)
"""
JVP = """
    _jvp_increment_nesting = torch._functorch.predispatch._jvp_increment_nesting()
    _set_fwd_grad_enabled = torch._C._set_fwd_grad_enabled(True)
    _enter_dual_level = torch._functorch.predispatch._enter_dual_level()
    _maybe_load_decompositions = torch.autograd.forward_ad._maybe_load_decompositions()
    _make_dual = torch._functorch.predispatch._make_dual(x, y, level=0)
    _unpack_dual = torch._functorch.predispatch._unpack_dual(_make_dual, level=0)
    primal = _unpack_dual[0]
    _exit_dual_level = torch._functorch.predispatch._exit_dual_level(level=0)
    _set_fwd_grad_enabled_1 = torch._C._set_fwd_grad_enabled(True)
    _jvp_decrement_nesting = torch._functorch.predispatch._jvp_decrement_nesting()
    return (primal,)
"""
AUTOCAST = """
    _enter_autocast = torch.amp.autocast_mode._enter_autocast('cpu', torch.bfloat16, True, None)
    t = x.t()
    a = x @ t
    _set_grad_enabled = torch._C._set_grad_enabled(False)
    b = a.sin()
    _set_grad_enabled_1 = torch._C._set_grad_enabled(True)
    _exit_autocast = torch.amp.autocast_mode._exit_autocast(_enter_autocast)
    _saved_tensors_hooks_disable = torch._C._autograd._saved_tensors_hooks_disable('no')
    _saved_tensors_hooks_enable = torch._C._autograd._saved_tensors_hooks_enable()
    _assert_scalar_default = torch.ops.aten._assert_scalar.default(y, 'message')
    _log_api_usage_once = torch._C._log_api_usage_once('a')
    return (b,)
"""
INPLACE = """
    a = x.clone()
    a[0] = 1
    a += y
    b = a
    relu_ = b.relu_()
    _foreach_add_ = torch._foreach_add_([b], 1.0)
    part = b[(slice(None, None, None), slice(None, None, 2))]
    mul_ = part.mul_(2)
    relu = torch.nn.functional.relu(b, inplace=True)
    out = torch.add(x, y, out=b)
    other = x * 2
    other_ = other.add_(1)
    add_ = x.add_(1)
    c = y + 1
    return (b, c)
"""
SPLIT = """
    a = x + y
    split = torch.split(a, 2)
    first = split[0]
    second = split[1]
    b = first * second
    c = b.sum()
    return (c,)
"""


def program(body: str) -> Program:
    calls = "def calls():\n    x = torch.randn(4, 4)\n    y = torch.randn(4, 4)\n    return [(x, y)]\n"
    return parse(f"def graph(x, y):{body}\n{calls}")


def lines(program: Program | None) -> list[str]:
    assert program is not None
    assert parse(render(program)) == program
    return [statement.line for statement in program.graph.statements]


@pytest.mark.parametrize("body", [VMAP, JVP, AUTOCAST])
def test_calls_for_effect_stay(body):
    base = program(body)
    stayed = lines(apply(base, Edit(), {}))
    assert stayed == [statement.line for statement in base.graph.statements if statement.target != "dead"]


def test_in_place_operations_stay_while_their_memory_is_read_or_an_input():
    left = lines(apply(program(INPLACE), Edit(), {}))
    assert "other_ = other.add_(1)" not in left and "other = x * 2" not in left
    assert "add_ = x.add_(1)" in left
    assert len(left) == len(program(INPLACE).graph.statements) - 2
    without = lines(apply(program(INPLACE), Edit(outputs=("c",)), {}))
    assert without == ["add_ = x.add_(1)", "c = y + 1"]


@pytest.mark.parametrize(
    ("body", "groups"),
    [(VMAP, [(0,), (1, 5)]), (JVP, [(0, 9), (1, 8), (2, 7), (3,)]), (AUTOCAST, [(0, 6), (3, 5), (7, 8), (9,), (10,)])],
)
def test_what_enters_and_what_leaves_belong_together(body, groups):
    assert sorted(Base(program(body)).states) == groups


def test_no_cut_falls_inside_a_functorch_level():
    assert Base(program(VMAP)).regions == [(1, 5)]
    assert Base(program(JVP)).regions == [(0, 9)]


def test_a_value_with_its_getitems_is_one_unit():
    assert Base(program(SPLIT)).units == [(0,), (1, 2, 3), (4,), (5,)]


def test_a_removed_unit_leaves_its_parts_as_inputs():
    record = TensorRecord((2, 4), (1, 2), 0, "torch.float16", "cpu", True, "0", 0.0, 1.0)
    edited = apply(program(SPLIT), Edit(removed=frozenset({1, 2, 3})), {"first": record, "second": record})
    assert lines(edited) == ["b = first * second", "c = b.sum()"]
    assert edited is not None and edited.graph.params == ("first", "second") == edited.calls[0]
    assert edited.inputs[0].line == (
        "first = torch.rand(8, dtype=torch.float16).as_strided((2, 4), (1, 2)).requires_grad_()"
    )


def test_nothing_is_made_up_for_a_value_that_was_not_recorded():
    assert apply(program(SPLIT), Edit(removed=frozenset({2})), {}) is None  # first
    assert apply(program(SPLIT), Edit(removed=frozenset({1})), {"split": (None, None)}) is None


def test_a_bypass_follows_bypasses():
    edited = apply(program(SPLIT), Edit(bypass={"b": "second"}) + Edit(bypass={"second": "first"}), {})
    assert lines(edited) == ["a = x + y", "split = torch.split(a, 2)", "first = split[0]", "c = first.sum()"]


def test_edits_add_up_in_their_order():
    first = set_input("x", requires_grad=True) + Edit(recipe={"dynamic": True}, marks=False, calls=(0,))
    both = first + set_input("x", dtype="torch.float16") + Edit(recipe={"dynamic": None, "seed": 1})
    assert (both.recipe, both.marks, both.calls) == ({"dynamic": None, "seed": 1}, False, (0,))
    edited = apply(program(SPLIT), both, {})
    assert edited is not None
    assert edited.inputs[0].line == "x = torch.randn(4, 4, dtype=torch.float16).requires_grad_()"


def test_unused_inputs_go_from_every_place():
    base = program(SPLIT).with_(calls=(("x", "y"), ("y", "x")))
    edited = apply(base, Edit(bypass={"a": "x"}) + Edit(calls=(0,)), {})
    assert edited is not None
    assert (edited.graph.params, edited.calls, [input_.line for input_ in edited.inputs]) == (
        ("x",),
        (("x",),),
        ["x = torch.randn(4, 4)"],
    )


def test_unused_bodies_go():
    text = render(program(SPLIT)).replace(
        "def graph",
        "def inner(a):\n    return (a,)\n\n\ndef body(a):\n    z = wrap(inner, a)\n    return z\n\n\ndef graph",
    )
    base = parse(text.replace("c = b.sum()", "c = torch.ops.higher_order.cond(True, body, body, (b,))"))
    assert [body.name for body in base.bodies] == ["inner", "body"]
    edited = apply(base, Edit(outputs=("b",)), {})
    assert edited is not None and edited.bodies == ()


def test_a_number_becomes_an_input_too():
    base = program("\n    n = x.size(0)\n    v = y.view(n, -1)\n    return (v,)")
    edited = apply(base, Edit(removed=frozenset({0})), {"n": ScalarRecord(4)})
    assert edited is not None and edited.inputs[-1] == ScalarInput("n", 4)


def test_settings_are_replaced():
    edited = apply(program(SPLIT), Edit(recipe={"dynamic": True}), {})
    assert edited is not None and edited.recipe.dynamic is True


def test_records_of_a_reply():
    tensor = {"shape": [2], "stride": [1], "dtype": "torch.int64", "min": 0, "max": 5, "storage": 3, "file": "a.pt"}
    found = records(
        {"a": tensor, "b": [tensor, None], "c": {"python": "int", "value": 3}, "d": {"python": "dtype", "value": None}}
    )
    expected = TensorRecord((2,), (1,), dtype="torch.int64", storage="3", low=0, high=5, file="a.pt")
    assert found == {"a": expected, "b": (expected, None), "c": ScalarRecord(3), "d": None}


def test_constants_are_special_values_first_and_then_magnitudes():
    values = records({"a": {"shape": [2, 2], "dtype": "torch.float32", "samples": [0.0, -0.0, "nan", 89.3]}})
    lines = [TensorInput("a", data).line for data in constants(values["a"])]
    assert lines == [
        "a = torch.full((2, 2), -0.0)",
        "a = torch.full((2, 2), nan)",
        "a = torch.full((2, 2), 0.0)",
        "a = torch.full((2, 2), 90.0)",
        "a = torch.tensor([[0.0, -0.0], [nan, 90.0]])",
    ]
    assert [parse_input(ast.parse(line).body[0]).line for line in lines] == lines


@pytest.mark.parametrize(
    ("record", "texts"),
    [
        (TensorRecord((9,), (1,), samples=(1234, -56, 1234)), ["(9,), 1000", "(9,), -50"]),
        (TensorRecord((), (), samples=(0.25,)), ["(), 0.2"]),
        (TensorRecord((2,), (1,)), []),
    ],
)
def test_a_constant_says_how_large_the_users_values_are_and_no_more(record, texts):
    assert [TensorInput("a", data).line.partition("(")[2][:-1] for data in constants(record)] == texts


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch.nn.functional.relu(x)", "relu"),
        ("x.relu()", "relu"),
        ("torch.ops.aten.relu.default(x)", "relu"),
        ("x * 2", "mul"),
        ("~x", "bitwise_not"),
        ("x > 1", "gt"),
        ("x[None]", "getitem"),
        ("x.T", "T"),
    ],
)
def test_the_operator_of_a_statement(text, name):
    assert op_name(Statement("v", text)) == name
