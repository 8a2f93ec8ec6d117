"""Searches over numbered parts: any border is found, answers that tell nothing are worked around."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from repro_kit.failure.signature import RunOutcome
from repro_kit.reduce.boundary import Boundary, boundary_search, curing, narrowed, needed, next_points


def outcome(fails: bool | None) -> RunOutcome:
    if fails is None:
        return RunOutcome.CANNOT_TELL
    return RunOutcome.FAILS_ALIKE if fails else RunOutcome.PASSES


@given(st.integers(1, 300), st.data(), st.integers(1, 4))
def test_a_border_is_found_in_logarithmic_many_runs(count: int, data: st.DataObject, width: int) -> None:
    border = data.draw(st.integers(0, count))
    rounds = []

    def ask(points: Sequence[int]) -> list[RunOutcome]:
        rounds.append(points)
        return [outcome(at >= border) for at in points]

    assert boundary_search(-1, count, ask, width) == Boundary(border - 1, border)
    assert len(rounds) <= (count + 1).bit_length()
    assert all(len(points) <= width for points in rounds)


def test_a_number_as_large_as_int64_is_halved_without_a_list_of_all_numbers() -> None:
    found = boundary_search(0, 2**63 - 1, lambda points: [outcome(at > 2**40) for at in points], width=3)
    assert found == Boundary(2**40, 2**40 + 1)


@given(st.integers(1, 300), st.data(), st.integers(1, 4))
def test_a_border_may_be_looked_for_downwards(count: int, data: st.DataObject, width: int) -> None:
    border = data.draw(st.integers(0, count - 1))
    found = boundary_search(count, -1, lambda points: [outcome(at <= border) for at in points], width)
    assert found == Boundary(border + 1, border)
    assert found.sharp


def test_the_state_of_a_search_says_what_to_ask_and_keeps_what_it_learns() -> None:
    border = Boundary(0, 8)
    assert border.questions() == [4]
    border = border.learn({4: None})
    assert 4 not in border.questions(width=9)
    border = border.learn({2: False, 5: True, 6: False})  # the answer after the failing one does not count
    assert (border.good, border.bad, border.sharp) == (2, 5, False)
    assert border.questions(width=9) == [3]


@given(st.integers(1, 60), st.data())
def test_what_tells_nothing_only_blurs_the_border(count: int, data: st.DataObject) -> None:
    border = data.draw(st.integers(0, count))
    silent = data.draw(st.sets(st.integers(0, count - 1), max_size=4))

    def ask(points: Sequence[int]) -> list[RunOutcome]:
        return [outcome(None if at in silent else at >= border) for at in points]

    found = boundary_search(-1, count, ask, 2)
    assert found.good < border <= found.bad
    assert set(range(found.good + 1, found.bad)) <= silent


@given(st.lists(st.booleans(), min_size=2, max_size=80), st.integers(1, 3))
def test_without_order_some_failing_one_follows_a_passing_one(fails: list[bool], width: int) -> None:
    fails[0], fails[-1] = False, True
    found = boundary_search(0, len(fails) - 1, lambda points: [outcome(fails[at]) for at in points], width)
    assert found.sharp
    assert (fails[found.good], fails[found.bad]) == (False, True)


def test_it_gives_up_where_nothing_tells_anything() -> None:
    asked: list[int] = []

    def ask(points: Sequence[int]) -> list[RunOutcome]:
        asked.extend(points)
        return [outcome(None) for _ in points]

    assert boundary_search(-1, 1000, ask) == Boundary(-1, 1000)
    assert len(asked) < 10


@given(st.lists(st.sampled_from([True, False, None]), max_size=60), st.data(), st.integers(1, 4), st.integers(1, 20))
def test_a_search_follows_from_what_is_known(
    truth: list[bool | None], data: st.DataObject, width: int, patience: int
) -> None:
    """In any order with unknown members: each number is asked once, and a killed search asks the same again."""

    def search(known: dict[int, bool | None]) -> tuple[Boundary, list[int]]:
        while points := next_points(narrowed(-1, len(truth), known), known, width, patience):
            assert len(points) <= width and not set(points) & set(known)
            known.update({at: truth[at] for at in points})
        return narrowed(-1, len(truth), known), list(known)

    border, asked = search({})
    undecided = [at for at in border.inside if at in asked]
    assert all(truth[at] is None for at in undecided)
    assert len(undecided) == len(border.inside) or len(undecided) >= patience
    assert border.good == -1 or truth[border.good] is False
    assert border.bad == len(truth) or truth[border.bad] is True
    if width == 1:
        killed_after = data.draw(st.integers(0, len(asked)))
        assert search({at: truth[at] for at in asked[:killed_after]}) == (border, asked)


@given(st.integers(1, 60), st.data(), st.integers(1, 3))
def test_what_is_needed_is_found_exactly(count: int, data: st.DataObject, width: int) -> None:
    culprits = data.draw(st.sets(st.integers(0, count - 1), max_size=4))
    asked: list[tuple[int, ...]] = []

    def ask(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        asked.extend(map(tuple, sets))
        return [outcome(culprits <= set(set_)) for set_ in sets]

    assert needed(range(count), ask, width) == (sorted(culprits), True)


def test_a_budget_leaves_more_than_is_needed_and_says_so() -> None:
    kept, sure = needed(range(64), lambda sets: [outcome({3, 40} <= set(set_)) for set_ in sets], budget=5)
    assert {3, 40} <= set(kept)
    assert not sure


@given(st.integers(1, 200), st.data())
def test_every_cure_is_found_by_groups(count: int, data: st.DataObject) -> None:
    cures = data.draw(st.sets(st.integers(0, count - 1), max_size=3))
    poison = data.draw(st.sets(st.integers(0, count - 1), max_size=2)) - cures
    asked: list[Sequence[int]] = []

    def ask(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        asked.extend(sets)
        return [outcome(None if poison & set(set_) else not cures & set(set_)) for set_ in sets]

    groups = [range(at, min(at + 24, count)) for at in range(0, count, 24)]
    assert curing(groups, ask) == (sorted(cures), True)
    assert len(asked) <= len(groups) + 12 * len(cures | poison)


def test_the_search_for_cures_ends_with_its_budget() -> None:
    assert curing([[0, 1, 2, 3]], lambda sets: [outcome(0 not in set_) for set_ in sets], budget=2) == ([], False)
