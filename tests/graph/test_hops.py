"""Calls of bodies: taken apart, each step a program of its own."""

from repro_kit.graph import Program, parse, render, size
from repro_kit.graph.hops import alike, all_inlined, bypassed, calls, inlinings, without_operand, without_result


def program(bodies: str, graph: str, params: str = "p, x, y") -> Program:
    arguments = "".join(f"    {name} = torch.randn(3, 4)\n" for name in params.split(", "))
    indented = graph.strip().replace("\n", "\n    ")
    return parse(
        f"import torch\n\nRECIPE = {{}}\n\n\n{bodies}\n\ndef graph({params}):\n    {indented}\n\n\n"
        f"def calls():\n{arguments}    return [({params},)]\n"
    )


BRANCHES = """
def body_0(a, b):
    c = a.sin()
    d = c + b
    return (d, a)


def body_1(a, b):
    c = a.cos()
    return (c, b)
"""
COND = program(
    BRANCHES,
    """
c = x.exp()
cond = torch.ops.higher_order.cond(p, body_0, body_1, (c, y))
one = cond[0]
two = cond[1]
out = one * two
return (out,)""",
)


def code(found: Program | None) -> str:
    assert found is not None
    assert parse(render(found)) == found
    text = render(found)
    return text[text.index("RECIPE") : text.index("def calls")]


def test_a_branch_in_place_of_the_operator_takes_fresh_names() -> None:
    (call,) = calls(COND)
    first, second = inlinings(COND, call)
    assert "c_1 = c.sin()\n    d = c_1 + y\n    out = d * c\n" in code(first)
    assert "c_1 = c.cos()\n    out = c_1 * y\n" in code(second)
    assert "body" not in code(second)
    assert all_inlined(COND) == first
    assert all_inlined(COND, last=True) == second


def test_one_branch_for_both() -> None:
    (call,) = calls(COND)
    first, second = alike(COND, call)
    assert "(p, body_0, body_0, (c, y))" in code(first)
    assert "def body_1" not in code(first)
    assert "(p, body_1, body_1, (c, y))" in code(second)


def test_results_that_nobody_reads_and_operands_that_no_branch_reads_go() -> None:
    (call,) = calls(COND)
    assert without_result(COND, call, 0) is None  # it is read
    assert without_operand(COND, call, 0) is None
    lesser = without_result(COND, call, 1, instead=0)
    assert "return (d,)" in code(lesser)
    assert "one = cond[0]\n    two = cond[0]" in code(lesser)
    assert lesser is not None
    simpler = bypassed(lesser, "body_0", {"d": "c", "c": "a"})
    assert "def body_0(a, b):\n    return (a,)" in code(simpler)
    assert simpler is not None
    (call,) = calls(simpler)
    last = without_operand(simpler, call, 1)
    assert "def body_0(a):" in code(last)
    assert "(p, body_0, body_1, (c,))" in code(last)


LOOP = program(
    """
def body_0(i, a, b):
    small = i < 3
    return small


def body_1(i, a, b):
    j = i + 1
    c = a.sin()
    return (j, c, b)
""",
    """
i = torch.zeros(())
loop = torch.ops.higher_order.while_loop(body_0, body_1, (i, x, y), ())
out = loop[1]
return (out,)""",
)


def test_what_a_loop_carries_goes_with_its_result() -> None:
    (call,) = calls(LOOP)
    assert "j = i + 1\n    c = x.sin()\n    return (c,)" in code(next(inlinings(LOOP, call)))
    assert without_operand(LOOP, call, 1) is None  # its result is read
    lesser = code(without_operand(LOOP, call, 2))
    assert "def body_0(i, a):" in lesser
    assert "return (j, c)" in lesser
    assert "(i, x), ())" in lesser


def test_a_region_that_is_called_twice_changes_everywhere() -> None:
    region = "@torch.compiler.nested_compile_region\ndef body_0(a, b):\n    c = a.sin()\n    return (c, b)\n"
    twice = program(region, "one = body_0(x, y)\nleft = one[0]\ntwo = body_0(left, p)\nout = two[0]\nreturn (out,)")
    first, _ = calls(twice)
    assert without_operand(twice, first, 1) is None
    lesser = without_result(twice, first, 1)
    assert lesser is not None
    first, _ = calls(lesser)
    last = code(without_operand(lesser, first, 1))
    assert "@torch.compiler.nested_compile_region\ndef body_0(a):\n    c = a.sin()\n    return (c,)" in last
    assert "one = body_0(x)" in last
    assert "two = body_0(left)" in last
    whole = all_inlined(twice)
    assert whole is not None
    assert size(whole) == 2


def test_a_slice_stands_for_what_is_mapped_over() -> None:
    mapped = program(
        "def body_0(a, b):\n    c = a + b\n    return (c,)\n",
        "m = torch.ops.higher_order.map_impl(body_0, [x], [y])\nout = m[0]\nreturn (out,)",
    )
    assert "a = x[0]\n    c = a + y\n    return (c,)" in code(all_inlined(mapped))


def test_an_autograd_function_is_its_forward() -> None:
    own = program(
        "def body_0(a, b):\n    c = a * b\n    return ((c,), (a, b))\n\n\n"
        "def body_1(g, a, b):\n    d = g * b\n    return (d, None)\n",
        "own = AutogradFunction.apply(body_0, body_1, x, y)\nout = own[0]\nreturn (out,)",
    )
    (call,) = calls(own)
    assert code(all_inlined(own)).endswith("c = x * y\n    return (c,)\n\n\n")
    assert list(alike(own, call)) == []
    assert without_operand(own, call, 0) is None
    assert without_result(own, call, 0) is None


def test_what_is_not_understood_stays() -> None:
    odd = program("def body_0(a):\n    return a\n", "out = torch.ops.higher_order.odd(body_0, x)\nreturn (out,)")
    assert calls(odd) == []
    assert all_inlined(odd) is None
