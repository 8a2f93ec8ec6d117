"""The statements that the wrong and the right results of a run leave."""

from textwrap import indent

import pytest

from repro_kit.graph import parse
from repro_kit.graph.suspects import suspects

#: A U-Net in small: a connection goes around the fault at `pool`.
NET = """
a = torch.conv2d(x, w1)
b = torch.relu(a)
pool = torch.avg_pool2d(b, 2)
c = torch.conv2d(pool, w2)
up = torch.interpolate(c)
both = torch.cat([up, b])
d = torch.conv2d(both, w3)
return (d,)
"""
CHAIN = """
m = torch.batch_norm(x, mean1, var1)
n = torch.relu(m)
o = torch.batch_norm(n, mean2, var2)
both = torch.split(o, 2)
first = both[0]
second = both[1]
p = first.sin()
q = second.cos()
return (p, q)
"""
INPLACE = "a = x * w1\nb = a.view(4)\na.mul_(w2)\nc = b * w3\nreturn (c,)"


def named(body: str, wrong: list[str], right: list[str], calls: int = 1) -> list[str]:
    names = [name for name in ("x", "w1", "w2", "w3", "mean1", "var1", "mean2", "var2") if name in body]
    parameters = ", ".join(names)
    makes = "".join(f"    {name} = torch.randn(4)\n" for name in names)
    head = "# repro-kit program 1\nimport torch\nRECIPE = {}\n"
    code = f"{head}def graph({parameters}):\n{indent(body.strip(), '    ')}\n"
    program = parse(f"{code}def calls():\n{makes}    return [{', '.join([f'({parameters},)'] * calls)}]\n")
    found = suspects(program, wrong, right)
    return [program.graph.statements[at].target or "" for at in found]


def grads(*names: str) -> list[str]:
    return [f"grad of {name}" for name in names]


@pytest.mark.parametrize(
    ("body", "wrong", "right", "left"),
    [
        (NET, grads("x", "w1"), ["output 0", *grads("w2", "w3")], ["a", "b", "pool", "c"]),
        (NET, grads("x", "w1", "w2"), ["output 0", *grads("w3")], ["c", "up", "both", "d"]),
        # One operand alone has a wrong gradient: everything above it is right.
        (NET, grads("w2"), ["output 0", *grads("x", "w1", "w3")], ["c"]),
        (NET, grads("x", "w1", "w2", "w3"), ["output 0"], ["d"]),
        (NET, grads("w1"), [], ["a", "b", "pool", "c", "up", "both", "d"]),
        (NET, ["output 0", *grads("x")], grads("w3"), ["a", "b", "pool", "c", "up", "both", "d"]),
        (NET, [], [], []),
        # Running statistics are results, too. A tuple and its items go together.
        (CHAIN, ["output 0", "mean2 after the call"], ["mean1 after the call"], ["m", "n", "o"]),
        (CHAIN, ["output 0"], ["output 1", "mean2 after the call"], ["both", "first", "second", "p"]),
        (CHAIN, ["output 0", "output 1"], ["mean2 after the call"], ["o", "both", "first", "second"]),
        (CHAIN, ["output 7"], [], []),
        # What writes to a value is between those who read it.
        (INPLACE, grads("w1", "w2"), grads("w3"), [""]),
    ],
)
def test_what_one_wrong_statement_explains(body: str, wrong: list[str], right: list[str], left: list[str]) -> None:
    assert named(body, wrong, right) == left


def test_of_several_calls_nothing_is_known() -> None:
    assert named(NET, grads("w1"), grads("w2"), calls=2) == []
