import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import ENVIRONMENT, Environment
from repro_kit.diagnosis.axes import Axis
from repro_kit.diagnosis.cell import Cell
from repro_kit.failure.failure import Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.recipe import LADDER, Recipe
from repro_kit.stages.ablate.matrix import Matrix, modes_of

FAIL = Verdict(Status.FAIL, Failure(Kind.COMPILE_ERROR))


def names(matrix: Matrix, own: Recipe) -> list[str]:
    return [cell.name for cell in matrix.cells(own)]


def test_what_names_the_layer_comes_first() -> None:
    own = Recipe(dynamic=True)
    first = names(Matrix(), own)[: 1 + len(LADDER)]
    assert first == ["no torch.compile", *(f"{backend} dynamic=True" for backend in LADDER)]


def test_presets_grow() -> None:
    sizes = [len(Matrix(preset=preset).cells(Recipe())) for preset in ("quick", "standard", "full")]
    assert sizes == [5, 13, 20]  # the ladder; × dynamic; modes, fullgraph, grad and caches
    assert len(Matrix(cheap=False).cells(Recipe())) == 7  # a script: dynamic for its own backend alone


def test_a_users_backend_and_further_ones_are_tried_too() -> None:
    found = names(Matrix(preset="quick", backends=("tvm",)), Recipe(backend="mine", mode="m"))
    assert found[-2:] == ["mine dynamic=None", "tvm dynamic=None"]


def test_axes_one_at_a_time_or_crossed() -> None:
    axes = (Axis("dynamic", (True, False)), Axis("inductor.a", (1, 2)))
    alone = names(Matrix("quick", axes=axes), Recipe())
    assert alone[5:] == [
        "inductor dynamic=True",
        "inductor dynamic=False",
        "inductor inductor.a=1",
        "inductor inductor.a=2",
    ]
    assert len(names(Matrix("quick", axes=axes, cross=True), Recipe())) == 5 + 4


def test_no_recipe_is_run_twice() -> None:
    for own in (Recipe(), Recipe(mode="max-autotune", dynamic=False), Recipe(backend="aot_eager", fullgraph=True)):
        plans = Matrix("full", axes=(Axis("backend", ("eager", "inductor")),)).cells(own)
        compiled = [plan.recipe for plan in plans if plan.compiled]
        assert all(recipe not in compiled[:at] for at, recipe in enumerate(compiled))


def test_modes_follow_where_inductor_fails_alike() -> None:
    own = Recipe()
    failing = [Cell("inductor", True, own, FAIL, same=True)]
    assert [it.name for it in Matrix().after(own, failing)] == [
        "inductor mode=lite",
        "inductor mode=reduce-overhead",
        "inductor mode=max-autotune",
        "inductor mode=max-autotune-no-cudagraphs",
    ]
    assert Matrix().after(own, [Cell("inductor", True, own, FAIL, same=False)]) == []
    assert Matrix("quick").after(own, failing) == []


def test_the_modes_are_those_of_the_torch_at_hand() -> None:
    known = {"default": {}, "frugal": {"fallback_by_default": True}, "graphs": {"triton.cudagraphs": True}}
    modes = {mode.name: mode.no_effect for mode in Matrix(known_modes=known).modes(Recipe())}
    assert modes == {
        "inductor mode=frugal": "",
        "inductor mode=graphs": "only adds CUDA graphs, and there is no CUDA device",
    }


@pytest.mark.torch
def test_torch_lists_its_modes(tmp_path: Path) -> None:
    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), sys.executable), "2026-01-01")
    case.store(ENVIRONMENT, Environment(python="3.11.7", executable=sys.executable, platform="Linux", torch="2.13.0"))
    listed = modes_of(case)
    assert listed["default"] == {} and {"reduce-overhead", "max-autotune"} <= listed.keys()


def test_a_mode_that_only_adds_cuda_graphs_is_not_run_without_cuda() -> None:
    without = {mode.name for mode in Matrix().modes(Recipe()) if mode.no_effect}
    assert without == {"inductor mode=reduce-overhead", "inductor mode=max-autotune-no-cudagraphs"}
    assert not any(mode.no_effect for mode in Matrix(accelerator=True).modes(Recipe()))
