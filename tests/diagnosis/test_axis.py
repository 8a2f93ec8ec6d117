import pytest

from repro_kit.diagnosis.axes import FIELDS, Axis, parse_axis, varied
from repro_kit.recipe import Recipe


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("dynamic=None,True", Axis("dynamic", (None, True))),
        ("dynamic=none,false", Axis("dynamic", (None, False))),
        ("fullgraph", Axis("fullgraph", (True, False))),
        ("backend=aot_eager, mine", Axis("backend", ("aot_eager", "mine"))),
        ("inductor.cpp.simdlen=None,8", Axis("inductor.cpp.simdlen", (None, 8))),
        ("inductor.x=(1, 2),[3]", Axis("inductor.x", ((1, 2), [3]))),
    ],
)
def test_values_are_literals_or_names(text: str, axis: Axis) -> None:
    assert parse_axis(text) == axis


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("dynamic=maybe", "None, True and False"),
        ("grad=1", "True and False"),
        ("backend", "needs values"),
        ("mode=", "no values"),
        ("speed=1", "is not an axis"),
        ("pattern_matcher=True", "MODULE.NAME"),
        ("inductor=1", "is not an axis"),
        ("mode=1", "names"),
    ],
)
def test_what_cannot_be_varied_is_said(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse_axis(text)


def test_mode_and_options_stay_with_their_backend() -> None:
    own = Recipe(mode="max-autotune", options={})
    assert varied(own, "backend", "eager").mode is None
    assert varied(own, "backend", "inductor") == own


def test_without_grad_there_is_no_backward() -> None:
    off = varied(Recipe(backward="sum"), "grad", False)
    assert (off.grad_mode, off.backward) == ("no_grad", "none")


def test_a_setting_is_added_to_those_of_the_recipe() -> None:
    own = Recipe(config={"inductor.max_fusion_size": 1})
    assert varied(own, "inductor.pattern_matcher", False).config == {
        "inductor.max_fusion_size": 1,
        "inductor.pattern_matcher": False,
    }


@pytest.mark.parametrize("name", [name for name in FIELDS if FIELDS[name]])
def test_every_axis_has_a_value_that_changes_the_recipe(name: str) -> None:
    assert any(varied(Recipe(backward="sum"), name, value) != Recipe(backward="sum") for value in FIELDS[name])
