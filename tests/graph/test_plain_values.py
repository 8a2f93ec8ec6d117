"""Plain values in place of random ones."""

import ast

import pytest

from repro_kit.graph.inputs import TensorInput, parse_input
from repro_kit.graph.values import TensorRecord, plain_view, plainer, plainest, rank


def line(text: str) -> TensorInput:
    found = parse_input(ast.parse(f"x = {text}").body[0])
    assert isinstance(found, TensorInput)
    return found


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("torch.rand(1, 1)", ["torch.ones(1, 1)", "torch.zeros(1, 1)"]),
        ("torch.randn(2, 3)", ["torch.ones(2, 3)", "torch.arange(6, dtype=torch.float32).reshape(2, 3)"]),
        (
            "torch.randint(0, 9, (2,))",
            [f"torch.{each}, dtype=torch.int64)" for each in ("zeros(2", "ones(2", "arange(2")],
        ),
        ("torch.randint(5, 9, (1,))", []),
        ("torch.randint(0, 2, (2,), dtype=torch.bool)", [f"torch.{each}(2, dtype=torch.bool)" for each in ("ones",)]),
        ("torch.randn(2, dtype=torch.complex64)", ["torch.ones(2, dtype=torch.complex64)"]),
        ("torch.full((2,), 3.5)", ["torch.ones(2)"]),
        ("torch.full((1,), 3)", ["torch.zeros(1, dtype=torch.int64)", "torch.ones(1, dtype=torch.int64)"]),
        ("torch.linspace(0, 1, 2, dtype=torch.int64)", ["torch.arange(2, dtype=torch.int64)"]),
        ("torch.linspace(0, 20, 5, dtype=torch.int64)", []),
        ("torch.ones(3)", []),
        ("torch.tensor([1, 2])", []),
    ],
)
def test_ones_come_first_and_an_index_stays_valid(text: str, forms: list[str]) -> None:
    found = list(plainer(line(text)))
    assert [form.line.partition(" = ")[2] for form in found] == forms
    assert all(rank(form) < rank(line(text)) for form in found)
    assert plainest(line(text)) == (found[0] if found else line(text))


def test_a_few_known_values_are_written_out() -> None:
    *_, last = plainer(line("torch.randn(2, 1)"), TensorRecord((2, 1), (1, 1), samples=(0.521, -1.27)))
    assert last.line == "x = torch.tensor([[0.5], [-1.0]])"
    *_, last = plainer(line("torch.rand(1)"), TensorRecord((1,), (1,), samples=(0.521,)))
    assert last.line == "x = torch.full((1,), 0.5)"


def test_gradients_and_strides_stay() -> None:
    trained = line("torch.nn.Parameter(torch.randn(6).as_strided((2, 2), (3, 1)))")
    assert plainest(trained).line == "x = torch.nn.Parameter(torch.ones(6).as_strided((2, 2), (3, 1)))"


FLAT = "torch.ones(24)"


@pytest.mark.parametrize(
    ("text", "base", "plain"),
    [
        ("torch.rand(256).as_strided((8, 32), (1, 8))", "", "torch.rand(32, 8).t()"),
        ("torch.ones(24).as_strided((2, 3, 4), (12, 1, 3)).requires_grad_()", "",
         "torch.ones(2, 4, 3).permute(0, 2, 1).requires_grad_()"),
        ("torch.ones(6).as_strided((2, 3), (3, 1))", "", "torch.ones(2, 3)"),
        ("torch.ones(6).as_strided((2, 2), (3, 1))", "", ""),
        ("torch.ones(7).as_strided((2, 3), (3, 1))", "", ""),
        ("torch.ones(7).as_strided((2, 3), (3, 1), 1)", "", ""),
        ('load("x.pt").as_strided((2, 3), (1, 2))', "", ""),
        ("base.as_strided((4, 6), (6, 1))", FLAT, "base.view(4, 6)"),
        ("base.as_strided((3, 6), (6, 1), 6)", FLAT, "base[6:].view(3, 6)"),
        ("base.as_strided((10,), (1,))", FLAT, "base[:10]"),
        ("base.as_strided((3,), (2,), 1)", FLAT, "base[1:6:2]"),
        ("torch.ones(9).as_strided((5,), (2,))", "", "torch.ones(9)[::2]"),
        ("torch.ones(10).as_strided((5,), (2,), 1).requires_grad_()", "", "torch.ones(10)[1::2].requires_grad_()"),
        ("torch.ones(11).as_strided((5,), (2,))", "", "torch.ones(11)[:9:2]"),
        ("base.as_strided((6, 2), (1, 6), 6)", FLAT, "base[6:18].view(2, 6).t()"),
        ("base.as_strided((4, 6), (6, 1))", "torch.ones(4, 6)", ""),
        ("base.as_strided((4, 6), (6, 1))", "torch.ones(48).as_strided((24,), (2,))", ""),
    ],
)  # fmt: skip
def test_a_view_is_said_in_the_words_of_a_person_where_these_say_the_same(text: str, base: str, plain: str) -> None:
    assert plain_view(line(text), line(base) if base else None) == f"x = {plain or text}"
