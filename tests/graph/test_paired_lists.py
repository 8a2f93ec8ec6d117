"""Lists of tensors that belong together become shorter together."""

import pytest

from repro_kit.graph import Program, parse, render
from repro_kit.graph.simpler import lengths, shortened

HEAD = "import torch\n\nRECIPE = {}\n\n\n"
CALLS = "\n\n\ndef calls():\n" + "".join(f"    {name} = torch.ones(1)\n" for name in "abcxyz")
OPTIMIZER = (
    "def graph(a, b, c, x, y, z):\n"
    "    m = torch._foreach_mul([x, y, z], [1.0, 2.0, 3.0])\n"
    "    p = m[0]\n    q = m[1]\n    r = m[2]\n"
    "    torch._foreach_add_([a, b, c], [p, q, r], alpha=2)\n"
    "    s = b.sum()\n"
    "    t = torch.cat([p, q])\n"
    "    return (a, s, r)"
)


def program(text: str) -> Program:
    return parse(HEAD + text + CALLS + "    return [(a, b, c, x, y, z)]\n")


def test_all_lists_keep_the_same_elements_and_what_is_made_of_them() -> None:
    assert lengths(program(OPTIMIZER)) == [3]
    text = render(shortened(program(OPTIMIZER), 3, (1,)))
    assert "torch._foreach_mul([y], [2.0])" in text
    assert "q = m[0]" in text
    assert "torch._foreach_add_([b], [q], alpha=2)" in text
    assert "return (s,)" in text
    assert not {"p = ", "torch.cat"} & {word for word in ("p = ", "torch.cat") if word in text}


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("torch.ops.mine.both([a, b], [x, y])", [2]),
        ("torch.cat([a, b, c])", []),
        ("torch._foreach_norm((a, b))", [2]),
        ("a.view([2, 3])", []),
        ("torch.ops.aten._foreach_add.List([a], [x])", []),
    ],
)
def test_which_lists_belong_together(call: str, found: list[int]) -> None:
    assert lengths(program(f"def graph(a, b, c, x, y, z):\n    v = {call}\n    return (v,)")) == found


def test_without_a_result_there_is_no_program() -> None:
    text = "def graph(a, b, c, x, y, z):\n    v = torch._foreach_neg([a, b])\n    w = v[1]\n    return (w,)"
    assert shortened(program(text), 2, (0,)) is None


def test_a_step_that_only_writes_has_no_result_and_becomes_shorter() -> None:
    text = "def graph(a, b, c, x, y, z):\n    torch._foreach_add_([a, b, c], [x, y, z], alpha=-0.1)\n    return ()"
    shorter = shortened(program(text), 3, (0,))
    assert shorter is not None and "torch._foreach_add_([a], [x], alpha=-0.1)\n    return ()" in render(shorter)
