"""What two digests of Python state have at their first difference, in words."""

import pytest

from repro_kit.model.measure.call_state import differing_values


@pytest.mark.parametrize(
    ("eager", "compiled", "words"),
    [
        ({"n": 2}, {"n": 3}, ("2", "3")),
        ({"seen": [6, 1.0, 2.0]}, {"seen": [0]}, ("6 items", "0 items")),
        ({"seen": [1, 1.0]}, {"seen": [1, 2.0]}, ("1.0 as item 0 of 1", "2.0 as item 0 of 1")),
        ({"a": {"b": 1}}, {"a": {}}, ("1", "nothing")),
        ({"name": "secret"}, {"name": "other!!"}, ("a text of 6 characters", "a text of 7 characters")),
        (
            {"w": ["tensor", "torch.float32", [2], 3.0, 4.0]},
            {"w": ["tensor", "torch.float32", [2], 5.0, 4.0]},
            ("a tensor of float32[2], sum of sizes 3", "a tensor of float32[2], sum of sizes 5"),
        ),
    ],
)
def test_both_sides_are_told_without_texts_of_the_user(eager: object, compiled: object, words: object) -> None:
    assert differing_values(eager, compiled) == words
