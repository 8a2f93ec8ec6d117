from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from repro_kit.case.case import Case
from repro_kit.failure.failure import Status, Verdict
from repro_kit.graph import parse
from repro_kit.graph.effects import Base
from repro_kit.graph.reading.graph_record import GraphRecord
from repro_kit.graph.values import TensorRecord
from repro_kit.recipe import Recipe
from repro_kit.stages.capture import growth
from repro_kit.stages.capture.graph_search import GraphSearch
from repro_kit.stages.capture.growth import kept_limit, part_of
from repro_kit.stages.capture.program_forms import Attempt

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


SLOW, QUICK = Status.CANNOT_TELL, Status.PASS


@pytest.mark.parametrize(
    ("verdicts", "tried"),
    [
        ([QUICK], [4]),
        ([SLOW, SLOW], [4, 2]),  # parts of one statement are too small
        ([SLOW, QUICK, QUICK], [4, 2, 2]),
    ],
)
def test_a_graph_that_is_too_slow_to_be_repeated_is_halved(
    verdicts: Sequence[Status], tried: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("x", "sin", "cos", "tan", "tanh")
    monkeypatch.setattr(growth, "records", lambda call: dict.fromkeys(names, TensorRecord((2, 3), (3, 1))))
    oracle = SimpleNamespace(record=lambda *_, **__: (Verdict(Status.PASS), [{}]))
    monkeypatch.setattr(growth, "open_oracle", lambda case: nullcontext(oracle))
    graphs: Any = SimpleNamespace(latest=Verdict(QUICK), inputs=tmp_path, timeout=600.0)
    whole = Attempt(STORED, Recipe(), GraphRecord(number=0, pid=0, compile_id="0/0"), "")
    sizes, hows = [], []
    for attempt, status in zip(
        growth.parts(cast(Case, None), cast(GraphSearch, graphs), whole, 1.5), verdicts, strict=True
    ):
        graphs.latest = Verdict(status)
        sizes.append(len(parse(attempt.text).graph.statements))
        hows.append(attempt.how)
        assert (attempt.recipe.growth, attempt.recipe.check, attempt.recipe.graph_caches) == (1.5, False, False)
    assert sizes == tried
    assert hows == ["", "part 1 of 2", "part 2 of 2"][: len(tried)]
