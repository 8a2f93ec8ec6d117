"""Which contrasts are tried, from synthetic cells."""

import pytest

from repro_kit.diagnosis import contrasts
from repro_kit.diagnosis.cell import Cell
from repro_kit.failure.failure import Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.recipe import LADDER, Recipe


def ladder(first_failing: str, kind: Kind = Kind.ACCURACY, *, fullgraph: bool = False) -> list[Cell]:
    own, cells = Recipe(fullgraph=fullgraph), []
    for backend in LADDER:
        fails = LADDER.index(backend) >= LADDER.index(first_failing)
        verdict = Verdict(Status.FAIL, Failure(kind)) if fails else Verdict(Status.PASS)
        cells.append(Cell(backend, True, own.with_(backend=backend), verdict, same=fails, changed={"backend": backend}))
    return cells


@pytest.mark.parametrize(
    ("cells", "text", "names"),
    [
        (ladder("aot_eager"), "", [contrasts.NO_PYTHON_DECOMPOSITIONS, contrasts.DEFAULT_PARTITIONER]),
        (ladder("aot_eager_decomp_partition"), "", [contrasts.NO_DECOMPOSITIONS]),
        (ladder("eager"), "", [contrasts.AFRESH]),
        (ladder("eager", fullgraph=True), "", [contrasts.GRAPH_BREAKS_ALLOWED, contrasts.AFRESH]),
        (ladder("eager", Kind.DYNAMO_ERROR), "", []),
        (ladder("inductor"), "load_cache_artifacts(blob)", [contrasts.NO_ARTIFACTS]),
        (ladder("eager"), "m.register_forward_hook(f)", [contrasts.AFRESH, contrasts.HOOKS_GUARDED]),
        (ladder("eager", Kind.DYNAMO_ERROR), "m.register_forward_hook(f)", []),
        (ladder("inductor"), "DDP(model)", [contrasts.NOT_SPLIT_FOR_DDP]),
        (ladder("inductor", Kind.RECOMPILES), "load_cache_artifacts(blob)", []),
        (ladder("inductor")[:-1], "load_cache_artifacts(blob)", []),
    ],
)
def test_a_contrast_is_tried_at_its_layer_and_where_the_subject_mentions_what_it_leaves_out(
    cells: list[Cell], text: str, names: list[str]
) -> None:
    recipe = Recipe(fullgraph=cells[0].recipe.fullgraph)
    assert [plan.axes["contrast"] for plan in contrasts.contrasts(cells, recipe, ["", text])] == names


def test_a_contrast_changes_the_failing_cell_and_nothing_else() -> None:
    (plan, _) = contrasts.contrasts(ladder("eager", fullgraph=True), Recipe(fullgraph=True), [])
    assert (plan.name, plan.recipe) == ("eager fullgraph=False", Recipe(backend="eager", fullgraph=False))
    assert (plan.overridden, plan.setup) == (("backend", "fullgraph"), "")
