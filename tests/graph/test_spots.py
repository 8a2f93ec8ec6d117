"""The numbers of a program, one at a time."""

from repro_kit.graph import parse, render
from repro_kit.graph.sizes import numbers, sizes

PROGRAM = parse(
    """import torch

RECIPE = {}


def graph(x, n):
    a = torch.avg_pool2d(x, [3, 2], stride=2, ceil_mode=True)
    b = a.sum(-1) * 0.5
    return (b,)


def calls():
    x = torch.ones(1, 9)
    n = 4
    return [(x, n)]
"""
)


def test_every_number_has_words_and_can_be_another_one() -> None:
    found = [(spot.what, spot.value) for spot in numbers(PROGRAM)]
    assert found == [
        ("argument 2 of `avg_pool2d`", 3),
        ("argument 2 of `avg_pool2d`", 2),
        ("`stride` of `avg_pool2d`", 2),
        ("the number in `….sum(-1) * 0.5`", 0.5),
        ("`n`", 4),
    ]
    changed = [render(spot.put(7)) for spot in numbers(PROGRAM)]
    assert "[7, 2]" in changed[0]
    assert "[3, 7]" in changed[1]
    assert "stride=7," in changed[2]
    assert "* 7\n" in changed[3]
    assert "n = 7\n" in changed[4]
    assert len(set(changed)) == 5


def test_every_size_is_one_of_one_input() -> None:
    assert [(spot.what, spot.value) for spot in sizes(PROGRAM)] == [
        ("dimension 0 of `x`", 1),
        ("dimension 1 of `x`", 9),
    ]
    assert "torch.ones(1, 8)" in render([*sizes(PROGRAM)][1].put(8))
