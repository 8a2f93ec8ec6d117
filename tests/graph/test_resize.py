import pytest

from repro_kit.graph import parse, render
from repro_kit.graph.sizes import flat, numbers_in, resized, sizes_of, with_sizes
from repro_kit.graph.values import input_for, plainer, plainest, records

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


JAGGED = """# repro-kit program 1
import torch

RECIPE = {}


def graph(rows, offsets):
    a = torch.nested.nested_tensor_from_jagged(rows, offsets)
    return (a,)


def calls():
    rows = torch.randn(20, 3)
    OFFSETS
    return [(rows, offsets)]
"""


def test_offsets_rise_and_end_with_the_number_of_rows_whatever_becomes_smaller():
    seen = {"shape": [5], "dtype": "torch.int64", "min": 0, "max": 20, "samples": [0, 6, 11, 14, 20], "form": "rises"}
    line = input_for("offsets", records({"offsets": seen})["offsets"])
    assert line.line == "offsets = torch.linspace(0, 20, 5, dtype=torch.int64)"
    assert plainest(line) is line and not list(plainer(line)), "zeros are no offsets"
    jagged = parse(JAGGED.replace("OFFSETS", line.line))
    assert jagged.inputs[1] == line
    for smaller, rows, offsets in (
        (resized(jagged, {20: 2, 3: 1}, code=True), "randn(2, 1)", "linspace(0, 2, 5, "),
        (with_sizes(jagged, {("rows", 0): 1, ("offsets", 0): 2}), "randn(1, 3)", "linspace(0, 1, 2, "),
        (flat(jagged), "randn(1)", "linspace(0, 1, 2, "),
    ):
        assert rows in render(smaller) and offsets in render(smaller)


@pytest.mark.parametrize(
    ("form", "shape", "dtype", "line", "smaller"),
    [
        ("permutation", [6], "torch.int64", "torch.randperm(6)", "torch.randperm(1)"),
        ("probabilities", [6, 4], "torch.float32", "torch.rand(6, 4).softmax(-1)", "torch.rand(1).softmax(-1)"),
        ("lower", [6, 6], "torch.bool", "torch.ones(6, 6, dtype=torch.bool).tril()", "torch.ones(1, dtype=torch.bool)"),
        (
            "upper",
            [6, 6],
            "torch.bool",
            "torch.ones(6, 6, dtype=torch.bool).triu(1)",
            "torch.ones(1, dtype=torch.bool)",
        ),
        ("rises", [9], "torch.float32", "torch.linspace(0.2, 4.0, 9)", "torch.linspace(0.2, 1.2, 2)"),
        ("", [9], "torch.bool", "torch.ones(9, dtype=torch.bool)", "torch.ones(1, dtype=torch.bool)"),
    ],
)
def test_values_keep_their_form(form: str, shape: list[int], dtype: str, line: str, smaller: str) -> None:
    low, high = (0.24, 4.3) if form == "rises" else (1, 1) if not form else (0, 5)
    seen = {"shape": shape, "dtype": dtype, "min": low, "max": high, "form": form}
    made = input_for("x", records({"x": seen})["x"])
    assert made.line.replace(", dtype=torch.int64", "") == f"x = {line}"
    program = parse(
        JAGGED.replace("rows = torch.randn(20, 3)", made.line).replace("rows", "x").replace("OFFSETS", "offsets = 0")
    )
    assert program.inputs[0] == made
    assert f"x = {smaller}\n" in render(flat(program)).replace(", dtype=torch.int64", "")
    assert all(other.data.kind == "arange" for other in plainer(made)) or form in ("", "rises")
