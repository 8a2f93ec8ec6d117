"""A program of AOTInductor is reduced under torch.compile; what is said of the result holds for AOTInductor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import CAPTURE, REDUCTION, Capture
from repro_kit.failure.failure import ExceptionLink, Failure, Frame, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.graph import parse
from repro_kit.options.stages import MinifyOptions
from repro_kit.reduce import CannotReduce
from repro_kit.stages.minify import program_reduction, stage
from repro_kit.ui import SilentUi

PROGRAM = """# repro-kit program 1
import pathlib

import torch
from torch import device, inf, nan

RECIPE = {'backend': 'aot-inductor'}


def graph(x):
    sin = torch.sin(x)
    relu = torch.relu(sin)
    return (relu,)


def calls():
    x = torch.randn(4, 4)
    return [(x,)]
"""
FAILURE = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("RuntimeError", "planted"),))


class Planted:
    """Fails where `relu` computes with the default dtype; AOTInductor with every dtype, if `always`."""

    jobs, python = 1, "python"

    def __init__(self, always: bool = False) -> None:
        self.always = always

    def prepare(self, recipe: Any) -> None: ...

    def check(self, texts: Sequence[str], inputs: Path, **_: Any) -> Iterator[Verdict]:
        for text in texts:
            yield Verdict(Status.FAIL, FAILURE, 0.1) if self.fails(text) else Verdict(Status.PASS, seconds=0.1)

    def fails(self, text: str) -> bool:
        return "relu" in text and ("float64" not in text or (self.always and "aot-inductor" in text))

    def record(self, *_: Any, **__: Any) -> tuple[Verdict, list[Any]]:
        return Verdict(Status.CANNOT_TELL), []

    def fake(self, texts: Sequence[str], inputs: Path) -> list[None]:
        return [None] * len(texts)


#: Rank 1 is judged, and rank 0 runs other code.
OF_TWO_CODES = """# repro-kit program 1
import torch

RECIPE = {'group': {'size': 2, 'backend': 'gloo', 'rank': 1, 'others': [0]}}


def peer_graph(x):
    cos = torch.cos(x)
    tanh = torch.relu(cos)
    exp = torch.exp(tanh)
    return (exp,)


def peer_calls():
    x = torch.randn(4, 4)
    return [(x,)]


def graph(x):
    sin = torch.sin(x)
    relu = torch.relu(sin)
    return (relu,)


def calls():
    x = torch.randn(4, 4)
    return [(x,)]
"""


class PlantedInBoth(Planted):
    """Fails where the code of both ranks computes `relu`."""

    def fails(self, text: str) -> bool:
        return text.count("relu(") == 2

    def record(self, *_: Any, **__: Any) -> tuple[Verdict, list[Any]]:
        value = {"shape": [4, 4], "stride": [4, 1], "offset": 0, "dtype": "torch.float32", "device": "cpu"}
        names = ("x", "sin", "relu", "cos", "tanh", "exp")
        more = {"requires_grad": False, "min": 0.0, "max": 1.0}
        return Verdict(Status.PASS), [{name: {**value, **more, "storage": at} for at, name in enumerate(names)}]


def reduced(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    oracle: Planted,
    text: str = PROGRAM,
    statements: int = 2,
    failure: Failure = FAILURE,
    options: MinifyOptions = MinifyOptions(),  # noqa: B008 - it is frozen
) -> Case:
    case = Case.create(directory, Subject("script", ("a.py",), str(directory), "python"), "2026-01-01")
    (case.path / "capture").mkdir()
    (case.path / "capture" / "program.py").write_text(text)
    verdict = Verdict(Status.FAIL, failure, 0.1)
    case.store(CAPTURE, Capture("program", "dynamo", 1, "0/0", statements, verdict, signature_of(failure)))
    for name in ("capture", "minify"):
        case.record(StageRecord(name, "done"))
    monkeypatch.setattr(program_reduction, "fresh_oracle", lambda _: nullcontext(oracle))
    monkeypatch.setattr(program_reduction, "open_oracle", lambda *_: nullcontext(oracle))
    stage.run(case, options, SilentUi())
    return case


class PlantedInTheName(Planted):
    """Fails where the input has its machine-made name, too."""

    def fails(self, text: str) -> bool:
        return super().fails(text) and "arg0_1" in text


class PlantedInTheGuards(Planted):
    """Raises in Python code, and with `late` only after the native compiler has run."""

    def __init__(self, late: bool) -> None:
        super().__init__()
        self.late = late
        self.stopped_early: list[bool] = []

    def check(self, texts: Sequence[str], inputs: Path, *, until: Any = None, **_: Any) -> Iterator[Verdict]:
        for text in texts:
            self.stopped_early.append(until is not None)
            fails = self.fails(text) and not (until and self.late)
            yield Verdict(Status.FAIL, RAISED, 0.1) if fails else Verdict(Status.PASS, seconds=0.1)


RAISED = Failure(
    Kind.COMPILE_ERROR,
    Phase.COMPILE,
    exceptions=(ExceptionLink("IndexError", "planted", (Frame("torch/fx/experimental/symbolic_shapes.py", 1, "f"),)),),
)


@pytest.mark.parametrize("late", [False, True])
def test_queries_stop_before_the_native_compiler_only_where_the_failure_comes_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    oracle = PlantedInTheGuards(late)
    text = PROGRAM.replace("{'backend': 'aot-inductor'}", "{}")
    case = reduced(tmp_path, monkeypatch, oracle, text, failure=RAISED, options=MinifyOptions(border="dynamo"))
    found = case.load(REDUCTION)
    assert (found.failed, found.verified) == (found.runs, True)
    assert oracle.stopped_early[0]
    assert any(oracle.stopped_early[1:]) is not late


@pytest.mark.parametrize(("given", "used"), [(None, 150.0), (1800.0, 1800.0), (7.0, 7.0)])
def test_a_deadline_that_is_given_counts_for_a_hang_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: float | None, used: float
) -> None:
    deadlines: list[float] = []

    def recorded(*_: Any, deadline: float, **__: Any) -> None:
        deadlines.append(deadline)
        raise CannotReduce("recorded", None, [])

    monkeypatch.setattr(program_reduction, "minify", recorded)
    with pytest.raises(CannotReduce):
        hang = Failure(Kind.TIMEOUT)
        reduced(tmp_path, monkeypatch, Planted(), failure=hang, options=MinifyOptions(deadline=given))
    assert deadlines == [used]


def test_the_variant_that_passes_is_compiled_by_aot_inductor_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = reduced(tmp_path, monkeypatch, Planted())
    best, twin = (parse((case.path / "minify" / name).read_text()) for name in ("best.py", "twin.py"))
    assert (best.recipe.backend, twin.recipe.backend) == ("aot-inductor", "aot-inductor")
    found = case.load(REDUCTION).twin
    assert found is not None
    assert "backend" not in found.diff


def test_a_variant_that_fails_with_aot_inductor_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = reduced(tmp_path, monkeypatch, Planted(always=True))
    assert case.load(REDUCTION).twin is None
    assert not (case.path / "minify" / "twin.py").exists()


def test_the_code_of_each_rank_is_reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = reduced(tmp_path, monkeypatch, PlantedInBoth(), OF_TWO_CODES, 5)
    best = parse((case.path / "minify" / "best.py").read_text())
    assert best.peer is not None and best.recipe.group is not None
    texts = [[statement.text for statement in made.graph.statements] for made in (best, best.peer)]
    assert all(text.startswith("torch.relu(") for (text,) in texts), texts
    assert best.recipe.group.rank == 1
    reduction = case.load(REDUCTION)
    assert (reduction.statements_before, reduction.statements_after, reduction.minimal) == (5, 2, True)


class PlantedInOne(PlantedInBoth):
    """Fails where rank 1 computes `relu`, whatever rank 0 does, as long as rank 0 runs code of its own."""

    def fails(self, text: str) -> bool:
        judged = "graph" if "'others': [0]" in text else "peer_graph"
        return "def peer_graph" in text and "relu(" in text.partition(f"def {judged}(")[2].partition("return")[0]


def test_what_the_graph_of_the_other_ranks_has_no_part_in_keeps_the_first_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = reduced(tmp_path, monkeypatch, PlantedInOne(), OF_TWO_CODES, 5)
    best = parse((case.path / "minify" / "best.py").read_text())
    (statement,) = best.graph.statements
    assert statement.callee == "torch.relu" and best.peer is not None
    assert not case.load(REDUCTION).minimal


@pytest.mark.parametrize(("oracle", "name"), [(Planted(), "x"), (PlantedInTheName(), "arg0_1")])
def test_a_name_that_no_person_gave_goes_unless_the_failure_needs_it(
    oracle: Planted, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PROGRAM.replace("x", "arg0_1").replace("'aot-inductor'", "'inductor'")
    case = reduced(tmp_path, monkeypatch, oracle, text)
    best = (case.path / "minify" / "best.py").read_text()
    assert f"    {name} = torch.ones(1)\n    return [({name},)]" in best
    assert case.load(REDUCTION).verified


def test_the_script_is_reduced_as_well_where_the_program_is_nothing_that_a_person_would_write() -> None:
    def why(statement: str, value: str = "torch.ones(1)") -> str:
        graph = f"def graph(x):\n    {statement}\n    y = torch.relu(x)\n    return (y,)\n\n\n"
        text = f"import torch\n\nRECIPE = {{}}\n\n\n{graph}def calls():\n    x = {value}\n    return [(x,)]\n"
        return stage.why_script(parse(text))

    assert not why("z = torch.sin(x)")
    assert "stored values" in why("z = torch.sin(x)", 'load("x.pt")')
    assert "torch.func" in why("z = torch._functorch.predispatch._vmap_increment_nesting(3, 'error')")
