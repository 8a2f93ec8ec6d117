from dataclasses import replace

import pytest

from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.layer import name_layer
from repro_kit.failure.failure import Failure, Layer, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.probe.repro_probe.protocol.recipe_data import AOT_INDUCTOR, EXPORT, EXPORT_DECOMPOSED, EXPORT_STRICT
from repro_kit.recipe import LADDER, Recipe, rungs

PASS = Verdict(Status.PASS)
FAIL = Verdict(Status.FAIL, Failure(Kind.COMPILE_ERROR))


BASELINE = Cell("no torch.compile", False, Recipe(), PASS)


def cell(backend: str, fails: bool, dynamic: bool | None = None, mode: str | None = None, same: bool = True) -> Cell:
    recipe = Recipe(backend=backend, dynamic=dynamic, mode=mode)
    return Cell(f"{backend} {dynamic} {mode}", True, recipe, FAIL if fails else PASS, same=fails and same)


def varied(backend: str, fails: bool, dynamic: bool | None) -> Cell:
    return replace(cell(backend, fails, dynamic), changed={"backend": backend, "dynamic": dynamic})


def ladder(first_failing: str, dynamic: bool | None = None) -> list[Cell]:
    at = LADDER.index(first_failing)
    return [cell(name, LADDER.index(name) >= at, dynamic) for name in LADDER]


def named(cells: list[Cell], recipe: Recipe) -> tuple[Layer | None, str]:
    found = name_layer(cells, recipe)
    return found.layer, found.sentence


@pytest.mark.parametrize(
    ("first", "layer"),
    list(zip(LADDER, (Layer.DYNAMO, Layer.AOT, Layer.DECOMPOSITION, Layer.INDUCTOR), strict=True)),
)
def test_the_first_backend_that_fails_names_the_layer(first: str, layer: Layer) -> None:
    found, sentence = named(ladder(first), Recipe())
    assert found == layer
    assert f"'{first}' fails" in sentence


def test_what_dynamo_does_not_support_is_dynamos_with_every_backend() -> None:
    refused = Signature(Kind.DYNAMO_ERROR, ("Unsupported",), "Unsupported functorch tracing attempt")
    cells = [replace(each, signature=refused if each.same else None) for each in ladder("aot_eager")]
    assert named(cells, Recipe()) == (
        Layer.DYNAMO,
        "Dynamo is at fault: backend 'eager' passes, 'aot_eager' fails, with an exception of Dynamo's own.",
    )


def test_a_users_backend_is_to_blame_only_when_the_ladder_passes() -> None:
    passing = [cell(name, False) for name in LADDER]
    assert named([*passing, cell("mine", True)], Recipe(backend="mine"))[0] == Layer.BACKEND
    failing = [*[cell(name, name == "inductor") for name in LADDER], cell("mine", True)]
    assert named(failing, Recipe(backend="mine"))[0] == Layer.INDUCTOR


def test_plain_eager_failing_is_the_users_bug() -> None:
    eager = Cell("no torch.compile", False, Recipe(), FAIL, same=True)
    assert named([eager, *ladder("eager")], Recipe())[0] == Layer.USER


def test_another_failure_is_no_evidence() -> None:
    cells = [cell("eager", False), cell("aot_eager", True, same=False), *ladder("inductor")[2:]]
    assert named(cells, Recipe())[0] == Layer.INDUCTOR


def test_dependence_on_dynamic_is_said() -> None:
    cells = [
        *ladder("aot_eager", True),
        *(varied(name, False, dynamic) for name in LADDER for dynamic in (None, False)),
    ]
    layer, sentence = named(cells, Recipe(backend="aot_eager", dynamic=True))
    assert layer == Layer.AOT
    assert sentence.endswith("'aot_eager' fails, but not with dynamic=None or False.")


def test_a_failure_that_moves_with_dynamic_shapes_says_so() -> None:
    cells = [
        *ladder("inductor"),
        *(varied(name, name != "eager", True) for name in LADDER),
        *(varied(name, name == "inductor", False) for name in LADDER),
    ]
    layer, sentence = named(cells, Recipe())
    assert layer == Layer.INDUCTOR
    assert sentence.endswith("'inductor' fails, 'aot_eager' first with dynamic=True.")


def test_other_axes_say_nothing_of_dynamic_shapes() -> None:
    setting = replace(cell("inductor", False), changed={"inductor.pattern_matcher": False})
    assert named([*ladder("inductor"), setting], Recipe())[1].endswith("'inductor' fails.")


def test_a_backend_that_tells_nothing_is_named() -> None:
    cells = [cell("eager", False), cell("aot_eager", True, same=False), *ladder("inductor")[2:]]
    sentence = named(cells, Recipe())[1]
    assert "('aot_eager' could not be judged: another failure)" in sentence


def test_the_same_exception_in_other_words_may_be_the_same_failure() -> None:
    def raised(cells: list[Cell], *words: str, kind: Kind = Kind.RUNTIME_ERROR) -> list[Cell]:
        told = [Signature(kind, (it.partition(":")[0],), it.partition(":")[2]) if it else None for it in words]
        return [replace(each, signature=signature) for each, signature in zip(cells, told, strict=True)]

    cells = [cell("eager", False), cell("aot_eager", True, same=False), cell(LADDER[2], True, same=False)]
    cells.append(cell("inductor", True))
    for words in (("mm.default", "mm.out"), ("no rule for 'aten::mm'", "no rule for 'aten::mm.out'")):
        layer, sentence = named(raised(cells, "", f"TypeError:{words[0]}", "", f"TypeError:{words[1]}"), Recipe())
        assert layer is Layer.AOT, "each backend picks its own overload"
        assert sentence.startswith("AOTAutograd is at fault: backend 'eager' passes, 'aot_eager' fails")
    layer, sentence = named(raised(cells, "", "TypeError:no rule for mm", "", "TypeError:addmm got two"), Recipe())
    assert layer is None
    assert sentence == (
        "The layer at fault is not known: backend 'eager' passes, 'inductor' fails, and 'aot_eager' raises the same "
        "exception with other words (AOTAutograd may be at fault)."
    )
    other = raised(cells, "", "ValueError:mm.default", "", "TypeError:mm.out")
    compiling = raised(cells, "", "TypeError:mm.default", "", "TypeError:mm.out", kind=Kind.COMPILE_ERROR)
    assert [named(each, Recipe())[0] for each in (other, compiling)] == [Layer.INDUCTOR, Layer.INDUCTOR]


def test_what_was_not_seen_to_pass_is_not_said_to() -> None:
    told = named([BASELINE, *ladder("eager")], Recipe())[1]
    assert told == "Dynamo is at fault: without torch.compile it passes, backend 'eager' fails."
    broken = replace(BASELINE, verdict=Verdict(Status.INVALID))
    assert "it passes" not in named([broken, *ladder("eager")], Recipe())[1]


@pytest.mark.parametrize(
    ("kind", "layer"), [(Kind.ACCURACY, None), (Kind.RUNTIME_ERROR, None), (Kind.COMPILE_ERROR, Layer.INDUCTOR)]
)
def test_a_wrong_result_names_no_layer_where_nothing_passes(kind: Kind, layer: Layer | None) -> None:
    signature, verdict = Signature(kind, ("AssertionError",), "apart"), Verdict(Status.FAIL, Failure(kind))
    before = [cell(name, True, same=False) for name in LADDER[:3]]
    broken = replace(BASELINE, verdict=verdict, signature=Signature(Kind.RUNTIME_ERROR, ("ValueError",), "in eager"))
    last = replace(cell("inductor", True), verdict=verdict, signature=signature)
    found, sentence = named([broken, *before, last], Recipe())
    assert found == layer
    assert ("without torch.compile: ValueError: in eager" in sentence) is (layer is None)


def test_a_failure_of_one_mode_alone_is_inductors() -> None:
    cells = [*(cell(name, False) for name in LADDER), cell("inductor", True, mode="max-autotune")]
    layer, sentence = named(cells, Recipe())
    assert layer == Layer.INDUCTOR
    assert "max-autotune" in sentence


def test_no_failing_cell_leaves_the_layer_open() -> None:
    layer, sentence = named([cell(name, False) for name in LADDER], Recipe())
    assert layer is None
    assert "flaky" in sentence
    others = [cell(name, True, same=False) for name in LADDER]
    assert "is not known" in named(others, Recipe())[1]


def test_a_backend_that_does_more_and_passes_is_told() -> None:
    cells = [cell(name, name == "aot_eager") for name in LADDER]
    layer, sentence = named(cells, Recipe(backend="aot_eager"))
    assert layer == Layer.AOT
    assert sentence.endswith("fails, though 'aot_eager_decomp_partition' and 'inductor' pass.")


def test_a_subject_with_a_mode_is_judged_in_that_mode() -> None:
    own = Recipe(mode="max-autotune")
    cells = [*(cell(name, False) for name in LADDER[:3]), cell("inductor", True, mode="max-autotune")]
    layer, sentence = named([*cells, cell("inductor", False, mode="default")], own)
    assert layer == Layer.INDUCTOR
    assert "only with mode='max-autotune'" in sentence


@pytest.mark.parametrize(
    ("own", "first", "layer", "before"),
    [
        (EXPORT, EXPORT, Layer.EXPORT, "inductor"),
        (AOT_INDUCTOR, AOT_INDUCTOR, Layer.AOT_INDUCTOR, "export-decomposed"),
        (AOT_INDUCTOR, "inductor", Layer.INDUCTOR, "aot_eager_decomp_partition"),
        (EXPORT_STRICT, "eager", Layer.DYNAMO, None),
        (EXPORT_DECOMPOSED, EXPORT_DECOMPOSED, Layer.EXPORT, EXPORT),
    ],
)
def test_the_ladder_of_an_export_goes_on_with_the_ways_to_export(own, first, layer, before) -> None:
    order = rungs(own)
    cells = [cell(name, order.index(name) >= order.index(first)) for name in order]
    found, sentence = named(cells, Recipe(backend=own))
    assert found == layer
    assert f"'{first}' fails" in sentence
    assert before is None or f"backend '{before}' passes" in sentence


def test_an_export_that_passes_says_nothing_about_inductor() -> None:
    cells = [cell(name, name in ("inductor", AOT_INDUCTOR)) for name in rungs(AOT_INDUCTOR)]
    assert named(cells, Recipe(backend=AOT_INDUCTOR)) == (
        Layer.INDUCTOR,
        "Inductor is at fault: backend 'aot_eager_decomp_partition' passes, 'inductor' fails.",
    )


def test_a_strict_export_that_fails_alone_is_told_from_the_other_exports() -> None:
    cells = [cell(name, name == EXPORT_STRICT) for name in rungs(EXPORT_STRICT)]
    found, sentence = named(cells, Recipe(backend=EXPORT_STRICT))
    assert found == Layer.EXPORT
    assert "backend 'export' passes, 'export-strict' fails" in sentence
