"""Proposals that change the structure of statements."""

import ast

import pytest

from proposed import unwrapped_texts
from repro_kit.script import Script
from repro_kit.script.proposals.inline import called_lambdas, functions, lambdas, variables
from repro_kit.script.proposals.structure import items, never_read, unused
from repro_kit.script.tree import NumberedTree


def test_one_name_at_a_time_goes_from_an_assignment_to_several() -> None:
    assert set(unwrapped_texts("a, b = (f(), 2)")) == {"b = 2", "a = f()"}
    assert set(unwrapped_texts("a, b, c = (1, 2, 3)")) == {"b, c = (2, 3)", "a, c = (1, 3)", "a, b = (1, 2)"}


def test_an_assignment_whose_parts_are_unknown_stays() -> None:
    assert set(unwrapped_texts("a, b = f()")) == set()
    assert set(unwrapped_texts("a, *b = (1, 2, 3)")) == set()


def test_a_loop_takes_the_first_item_of_what_it_goes_over() -> None:
    assert {"x = f\nx()", "f()", "x()", "[f, g]"} == set(unwrapped_texts("for x in [f, g]:\n    x()"))
    assert "x = data[0]\nx()" in unwrapped_texts("for x in DataLoader(data, 2):\n    x()")


def test_an_argument_takes_the_place_of_one_of_several_results() -> None:
    assert set(unwrapped_texts("a, b = f(x)")) == {"a = x", "b = x"}


def test_variables_that_are_assigned_together_are_put_in_place_together() -> None:
    numbered = NumberedTree(Script("a, b = (f(), 2)\ng(b, a)"))
    programs = [numbered.edited(edits) for edits in variables(numbered)]
    assert [program.text.strip() for program in programs if program is not None] == ["g(2, f())"]
    assert not list(variables(NumberedTree(Script("a, b = (f(), h())\ng(b, b, a)"))))


def test_a_special_method_stays_a_class_method() -> None:
    numbered = NumberedTree(
        Script("class A(B):\n    @classmethod\n    def __torch_function__(cls): ...\n    @cached\n    def f(self): ...")
    )
    removable = {ast.unparse(numbered.nodes[number]) for number in items(numbered)}
    assert "cached" in removable and "B" in removable and "classmethod" not in removable


def test_what_nothing_reads_is_found_without_a_query() -> None:
    text = (
        "from __future__ import annotations\nimport os, torch.fx\nfrom math import *\nfrom enum import Enum\n"
        "def f(x):\n    import json\n    1\n    x\n    return torch.sin(x)\n"
    )
    numbered = NumberedTree(Script(text))
    left = numbered.edited(dict.fromkeys(unused(numbered)))
    assert left is not None
    assert left.text.split("\n", 3) == [
        "from __future__ import annotations",
        "import torch.fx",
        "from math import *",
        "\ndef f(x):\n    return torch.sin(x)\n",
    ]


def test_an_assignment_that_only_such_assignments_read_is_never_read() -> None:
    text = (
        "a = 1\nb, c = a, 2\nb += c\nd: int = 3\n[e] = f()\nself.g = 4\n"
        "class A:\n    h = 5\nA.h\nk = 6\ngetattr(A, 'k')\nm = n = 7\nuse(n)"
    )
    assert set(map(ast.unparse, never_read(ast.parse(text)))) == {"a = 1", "b, c = (a, 2)", "b += c", "d: int = 3"}


def test_a_chain_of_attributes_goes_to_two_places() -> None:
    twice = NumberedTree(Script("a = ops.aten.relu\nf(a)\ng(a)"))
    programs = [twice.edited(edits) for edits in variables(twice)]
    assert [program.text for program in programs if program] == ["f(ops.aten.relu)\ng(ops.aten.relu)\n"]
    assert not list(variables(NumberedTree(Script("a = ops.aten.relu\nf(a)\ng(a)\nh(a)"))))
    assert not list(variables(NumberedTree(Script("a = ops().relu\nf(a)\ng(a)"))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x, y=1):\n    return x + y\ncompile(f)(2)", ["compile(lambda x, y=1: x + y)(2)\n"]),
        ("def f(x):\n    x.remove()\ncompile(f)(2)", ["compile(lambda x: x.remove())(2)\n"]),
        ("def f(x):\n    return x\nf(2)", []),  # its body takes the place of the call
        ("def f(x):\n    return x\ncompile(f)(f)", []),
        ("@compile\ndef f(x):\n    return x\nprint(f)", []),
        ("class A:\n    def f(self):\n        return 1\n    g = f", []),
    ],
)
def test_a_function_of_one_expression_becomes_a_lambda(text: str, expected: list[str]) -> None:
    numbered = NumberedTree(Script(text))
    programs = [numbered.edited(edits) for edits in lambdas(numbered)]
    assert [program.text for program in programs if program] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x):\n    g(x)\n    return x\nprint(f(2), 3)", ["g(2)\nprint(2, 3)\n"]),
        ("def f(x):\n    g(x)\ny = h(k=[f(2)])", ["g(2)\ny = h(k=[None])\n"]),
        ("def f(x):\n    if x:\n        g()\n    return x\nh(a(), f(b()))", ["x = b()\nif x:\n    g()\nh(a(), x)\n"]),
        ("def f(x):\n    g()\n    return x\nif f(2):\n    h()", ["g()\nif 2:\n    h()\n"]),
        ("def f(x):\n    g()\n    return x\nfor y in [f(2)]:\n    h(y)", ["g()\nfor y in [2]:\n    h(y)\n"]),
        ("def f(x):\n    g()\n    return x\nwith c(f(2)):\n    h()", ["g()\nwith c(2):\n    h()\n"]),
        ("def f(x):\n    return x\nh(lambda: f(2))", []),
        ("def f(x):\n    return x\n[f(y) for y in z]", []),
        ("def f(x):\n    return x\nh(c and f(2))", []),
        ("def f(x):\n    return x\nwhile f(2):\n    h()", []),
    ],
)
def test_a_function_goes_before_the_statement_that_holds_its_only_call(text: str, expected: list[str]) -> None:
    numbered = NumberedTree(Script(text))
    programs = [numbered.edited(edits) for edits in functions(numbered)]
    assert [program.text for program in programs if program] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(lambda x, y=2: x + x * y)(z)", ["z + z * 2\n"]),
        ("(lambda x: x + 1)(f())", ["f() + 1\n"]),
        ("(lambda x: x + x)(f())", []),
        ("(lambda x: [x for x in y])(z)", []),
        ("(lambda x: x)(*z)", []),
    ],
)
def test_a_lambda_that_is_called_where_it_stands_gives_way_to_its_expression(text: str, expected: list[str]) -> None:
    numbered = NumberedTree(Script(text))
    programs = [numbered.edited(edits) for edits in called_lambdas(numbered)]
    assert [program.text for program in programs if program] == expected


def test_another_name_for_a_value_goes_wherever_it_is_read() -> None:
    numbered = NumberedTree(Script("def f(x):\n    b = x\n    return g(b, b)"))
    programs = [numbered.edited(edits) for edits in variables(numbered)]
    assert ["return g(x, x)" in program.text and "b" not in program.text for program in programs if program] == [True]
    assert not list(variables(NumberedTree(Script("b = x\ng(b)\nb = 2\ng(b)"))))
