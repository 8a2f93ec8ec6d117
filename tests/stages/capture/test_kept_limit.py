import pytest

from repro_kit.program import parse
from repro_kit.program.analysis import Base
from repro_kit.program.value_records import TensorRecord
from repro_kit.stages.capture.growth import kept_limit, part_of

STORED = """
# repro-kit program 1
import torch

RECIPE = {'growth': 2.0}


def graph(x):
    sin = torch.sin(x)
    cos = torch.cos(sin)
    tan = torch.tan(cos)
    tanh = torch.tanh(tan)
    return (tanh,)


def calls():
    x = load("values_0.pt").requires_grad_()
    return [(x,)]
"""


@pytest.mark.parametrize(
    ("words", "limit", "kept"),
    [
        ("compile time grows 2.1 times per repetition (…)", 1.5, 3.0),
        ("compile time grows with the power 5.6 of the repetitions (…)", 1.5, 3.0),
        ("compile time grows with the power 3 of the repetitions (…)", 1.5, 2.2),
        ("compile time grows with the power 2.1 of the repetitions (…)", 2.0, 2.0),
        ("compile time grows faster than the power 3.3 of the repetitions (…)", 1.5, 2.5),
    ],
)
def test_a_reduced_program_must_grow_in_the_same_way(words: str, limit: float, kept: float) -> None:
    assert kept_limit(words, limit) == pytest.approx(kept, abs=0.1)


def test_a_part_of_a_graph_has_generated_values() -> None:
    metadata = {name: TensorRecord((2, 3), (3, 1)) for name in ("x", "sin", "cos", "tan", "tanh")}
    part = part_of(Base(parse(STORED)), metadata, 0, 2)
    assert part is not None
    assert [statement.target for statement in part.graph.statements] == ["sin", "cos"]
    assert [(line.data.kind, line.requires_grad) for line in part.inputs] == [("randn", True)]
