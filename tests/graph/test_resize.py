from repro_kit.graph import parse, render
from repro_kit.graph.sizes import numbers_in, resized, sizes_of

PROGRAM = parse(
    """# repro-kit program 1
import torch

RECIPE = {}


def graph(x, w, i, n):
    a = x.view(12, 8)
    b = a @ w
    c = b[i]
    d = c.expand(n, 8)
    return (d,)


def calls():
    x = torch.randn(3, 4, 8)
    w = torch.randn(8, 8)
    i = torch.randint(0, 12, (1,), dtype=torch.int64)
    n = 12
    return [(x, w, i, n)]
"""
)


def test_sizes_are_those_of_plain_inputs():
    assert sizes_of(PROGRAM) == [8, 4, 3]
    assert numbers_in(PROGRAM) >= {1, 3, 4, 8, 12}


def test_a_size_and_its_multiples_change_everywhere():
    text = render(resized(PROGRAM, {4: 1, 8: 2, 12: 3}, code=True))
    assert "x.view(3, 2)" in text
    assert "c.expand(n, 2)" in text
    assert "torch.randn(3, 1, 2)" in text
    assert "torch.randint(0, 3, (1,)" in text
    assert "n = 3" in text


def test_without_code_only_inputs_change():
    text = render(resized(PROGRAM, {8: 2}, code=False))
    assert "x.view(12, 8)" in text
    assert "torch.randn(2, 2)" in text
    assert "n = 12" in text


def test_nothing_to_change_is_the_same_program():
    assert resized(PROGRAM, {7: 1}, code=True) == PROGRAM
