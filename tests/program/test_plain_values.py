"""Plain values in place of random ones."""

import ast

import pytest

from repro_kit.program.inputs import TensorInput, parse_input
from repro_kit.program.plain_values import plainer, plainest, rank
from repro_kit.program.value_records import TensorRecord


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
