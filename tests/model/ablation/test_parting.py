from math import nan

import pytest

from repro_kit.model.ablation.parting import DifferingCall, first_differing_call

GIVEN = [["tensor", "torch.float32", [3], 3.0, 4.5]]
CALL = ["f", GIVEN, 6.0, {"seen": [1, 1.0], "n": 2}]


def changed(at: int, value: object) -> list[object]:
    return [value if number == at else part for number, part in enumerate(CALL)]


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (CALL, None),
        (changed(2, 6.000001), None),
        (changed(2, 7.0), DifferingCall("result", 2, "f")),
        (changed(3, {"seen": [0], "n": 2}), DifferingCall("state", 2, "f", "seen", "1 item", "0 items")),
        (changed(3, {"seen": [1, 1.0], "n": 3}), DifferingCall("state", 2, "f", "n", "2", "3")),
        (changed(3, {"seen": [1, 1.0]}), None),  # one run may know less
        (changed(0, "g"), None),
        (changed(1, [["tensor", "torch.float32", [3], 9.0, 4.5]]), None),
    ],
)
def test_the_first_call_that_differs(other: list[object], found: DifferingCall | None) -> None:
    assert first_differing_call([CALL, CALL, CALL], [CALL, other, CALL]) == found


def test_nan_is_like_nan() -> None:
    assert first_differing_call([["f", [], nan, {}]], [["f", [], nan, {}]]) is None
    assert first_differing_call([["f", [], nan, {}]], [["f", [], 1.0, {}]]) == DifferingCall("result", 1, "f")


def test_the_way_to_a_nested_variable_is_told() -> None:
    one, other = ({"helper": {"a": 1, "touch": {"state": [n]}}} for n in (1, 0))
    assert first_differing_call([["f", [], 0, one]], [["f", [], 0, other]]) == DifferingCall(
        "state", 1, "f", "helper.touch.state", "1 item", "0 items"
    )
