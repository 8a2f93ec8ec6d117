"""Two stories compared, and a story on its way through a file."""

import json
from dataclasses import replace

import pytest

from repro_kit.bundle.story.story import STORY, read_story, write_story
from repro_kit.commands.show import compare
from repro_kit.errors import ReproKitError
from repro_kit.serialize import dumps
from stories import story_of


def files(story):
    return {
        STORY: write_story(story).encode(),
        "env.json": dumps(story.environment),
        "ablation.json": dumps(story.ablation),
        "repro.py": story.repro.encode(),
    }


def test_a_story_survives_its_files():
    story = story_of("backward_accuracy")
    assert read_story(files(story), "x") == story
    assert not {"environment", "ablation", "repro"} & set(json.loads(write_story(story)))


def test_a_foreign_story_does_not_steer_the_terminal():
    story = story_of("accuracy", error="\x1b]0;title\x07red\x9b31m", command="a\tb\nc")
    told = read_story(files(story), "x")
    assert told.error == "]0;titlered31m" and told.command == "a\tb\nc"


@pytest.mark.parametrize("damage", [{STORY: b"[]"}, {STORY: b"{}"}, {"env.json": b"nonsense"}, {"ablation.json": b"3"}])
def test_a_damaged_story_is_one_sentence(damage):
    with pytest.raises(ReproKitError, match=r"x is damaged: its story\.json"):
        read_story({**files(story_of("accuracy")), **damage}, "x")


def test_a_bundle_without_a_story_says_what_to_do():
    with pytest.raises(ReproKitError, match="run bundle again"):
        read_story({"env.json": b"{}"}, "old.zip")


def rows(comparison):
    return {contrast.what: {name: (a, b) for name, a, b in contrast.rows} for contrast in comparison.contrasts}


def test_the_same_story_has_no_differences():
    comparison = compare(story_of("accuracy"), story_of("accuracy"))
    assert comparison.same and comparison.diff == "" and not any(contrast.rows for contrast in comparison.contrasts)


def test_another_torch_and_another_matrix():
    left = story_of("accuracy")
    env = replace(left.environment, torch="2.14.0", packages={"torch": "2.14.0"})
    cells = tuple(cell for cell in left.ablation.cells if cell.name != "eager dynamic=True")
    right = replace(left, environment=env, ablation=replace(left.ablation, cells=cells))
    comparison = compare(left, right)
    found = rows(comparison)
    assert comparison.same and "different versions" in comparison.sentence
    assert found["versions"] == {
        "torch": ("2.13.0", "2.14.0"),
        "package torch": ("2.13.0", "2.14.0"),
        "package numpy": ("2.0", "–"),
    }
    assert found["ablation"] == {"eager dynamic=True": ("passes", "–")} and found["failure"] == {}


def test_other_failures_with_other_settings():
    comparison = compare(story_of("accuracy"), story_of("backend_error"))
    found = rows(comparison)
    assert not comparison.same and found["failure"]["kind"] == ("accuracy", "compile-error")
    assert found["settings"]["backend"] == ("–", "relu_compile_error_TESTING_ONLY")
    assert "-RECIPE" in comparison.diff and "+RECIPE" in comparison.diff


def test_a_hostile_story_neither_turns_a_text_round_nor_runs_out_of_stack():
    told = files(story_of("accuracy"))
    turned = {**told, STORY: told[STORY].replace(b"python train.py", "python \u202eyp.niart".encode())}
    assert read_story(turned, "x").command == "python yp.niart"
    deep = told[STORY].replace(b'"python train.py"', b"[" * 1000 + b"]" * 1000)
    with pytest.raises(ReproKitError, match="x is damaged"):
        read_story({**told, STORY: deep}, "x")
