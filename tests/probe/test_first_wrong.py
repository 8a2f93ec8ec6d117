"""The first wrong values among many, when only a few can be watched at a time."""

import pytest

from repro_probe.query.first_wrong import first_wrong

CHAIN = {number: {number - 1} for number in range(1, 40)}


def search(wrong: set[int], sources: dict[int, set[int]], room: int, runs: list[int]) -> list[int]:
    """The search with values of one byte each; `runs` gets the number of values that each run watches."""

    def wrong_among(watched):  # type: ignore[no-untyped-def]
        runs.append(len(watched))
        return wrong & set(watched)

    return first_wrong(range(40), sources, dict.fromkeys(range(40), 1), wrong_among, room)


@pytest.mark.parametrize("room", [1, 2, 3, 10, 39, 40])
@pytest.mark.parametrize("culprit", [0, 1, 17, 38, 39])
def test_a_culprit_in_a_chain_is_found_with_any_room(room: int, culprit: int) -> None:
    runs: list[int] = []
    assert search(set(range(culprit, 40)), CHAIN, room, runs) == [culprit]
    assert max(runs) <= room


def test_nothing_is_named_where_nothing_is_wrong() -> None:
    assert search(set(), CHAIN, 5, []) == []


def test_two_culprits_that_do_not_depend_on_each_other_are_both_named() -> None:
    sources = {number: {number - 2} for number in range(2, 39)} | {39: {37, 38}}
    wrong = set(range(10, 40, 2)) | set(range(21, 40, 2))
    assert search(wrong, sources, 40, []) == [10, 21]


def test_with_little_room_a_culprit_beside_right_values_is_found() -> None:
    sources = {number: {number - 2} for number in range(2, 39)} | {39: {37, 38}}
    assert search(set(range(21, 40, 2)), sources, 4, []) == [21]


@pytest.mark.parametrize("room", [5, 40])
@pytest.mark.parametrize("shy", [3, 17, 39])
def test_a_value_that_changes_the_result_when_it_is_watched_is_left_out(shy: int, room: int) -> None:
    asked: list[set[int]] = []

    def wrong_among(watched):  # type: ignore[no-untyped-def]
        asked.append(set(watched))
        return None if shy in watched else set(range(20, 40)) & set(watched)

    assert first_wrong(range(40), CHAIN, dict.fromkeys(range(40), 1), wrong_among, room) == [20]
    assert {shy} in asked or not any(shy in watched for watched in asked)


def test_where_every_value_changes_the_result_the_search_ends() -> None:
    runs: list[int] = []

    def wrong_among(watched):  # type: ignore[no-untyped-def]
        runs.append(len(watched))

    assert first_wrong(range(40), CHAIN, dict.fromkeys(range(40), 1), wrong_among) == []
    assert len(runs) < 40
