"""The first difference of two runs in the digests of their calls, and both sides of it in words."""

from math import nan

import pytest

from repro_kit.failure.differences import DifferingCall, first_differing_call, state_difference
from repro_kit.failure.failure import Difference

GIVEN = [["tensor", "torch.float32", [3], 3.0, 4.5]]
CALL = ["f", GIVEN, 6.0, {"seen": [1, 1.0], "n": 2}]


def changed(at: int, value: object) -> list[object]:
    return [value if number == at else part for number, part in enumerate(CALL)]


def of_state(call: int, name: str, eager: str, compiled: str) -> DifferingCall:
    return DifferingCall(call, "f", Difference.of_state(f"{name} after call {call}", eager, compiled))


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (CALL, None),
        (changed(2, 6.000001), None),
        (changed(2, 7.0), DifferingCall(2, "f")),
        (changed(3, {"seen": [0], "n": 2}), of_state(2, "seen", "1 item", "0 items")),
        (changed(3, {"seen": [1, 1.0], "n": 3}), of_state(2, "n", "2", "3")),
        (changed(3, {"seen": [1, 1.0]}), None),  # one run may know less
        (changed(0, "g"), None),
        (changed(1, [["tensor", "torch.float32", [3], 9.0, 4.5]]), None),
    ],
)
def test_the_first_call_that_differs(other: list[object], found: DifferingCall | None) -> None:
    assert first_differing_call([CALL, CALL, CALL], [CALL, other, CALL]) == found


def test_nan_is_like_nan() -> None:
    assert first_differing_call([["f", [], nan, {}]], [["f", [], nan, {}]]) is None
    assert first_differing_call([["f", [], nan, {}]], [["f", [], 1.0, {}]]) == DifferingCall(1, "f")


def test_the_way_to_a_nested_variable_is_named() -> None:
    one, other = ({"helper": {"a": 1, "touch": {"state": [n]}}} for n in (1, 0))
    found = first_differing_call([["f", [], 0, one]], [["f", [], 0, other]])
    assert found == of_state(1, "helper.touch.state", "1 item", "0 items")
    assert str(found).endswith("another state: helper.touch.state (1 item in eager, 0 items when compiled)")


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
def test_both_sides_are_shown_without_texts_of_the_user(eager: object, compiled: object, words: object) -> None:
    found = state_difference(eager, compiled, 1)
    assert found is not None and (found.eager, found.compiled) == words
