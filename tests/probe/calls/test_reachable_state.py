"""What a function can reach is put back as it was, and nothing is touched that did not change."""

import datetime
import fractions
import functools
import itertools
import json
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro_probe.calls.python_state import ReachableState, StateDigest

#: All of torch that plain Python state needs.
TORCH = SimpleNamespace(Tensor=type("Tensor", (), {}), Generator=type("Generator", (), {}))
GLOBAL = {"steps": [1]}


class Owner:
    made = 0

    def __init__(self) -> None:
        self.items, self.named, self.marks = [1], {"a": (1, [2])}, {1}
        self.last = deque([1, 2], maxlen=2)
        self.counts, self.order = Counter("ab"), OrderedDict(a=1, b=2)

    def step(self, x: int) -> int:
        Owner.made += 1
        GLOBAL["steps"].append(x)
        self.items.append(x)
        self.named["a"][1].append(x)
        self.named["b"] = self
        self.marks.add(x)
        self.last.append(x)
        self.counts["a"] += 1
        self.order.move_to_end("a")
        self.extra = x
        return x


def test_everything_that_a_method_changes_is_put_back() -> None:
    owner = Owner()
    named, inner = owner.named, owner.named["a"][1]
    state = ReachableState(TORCH, [functools.partial(owner.step)])
    for _ in range(2):
        owner.step(5)
        state.restore()
    assert vars(owner).keys() == vars(Owner()).keys()
    assert (owner.items, owner.marks, list(owner.last)) == ([1], {1}, [1, 2])
    assert owner.named is named and owner.named["a"][1] is inner and named == {"a": (1, [2])}
    assert owner.counts == Counter("ab") and list(owner.order) == ["a", "b"]
    assert (Owner.made, GLOBAL) == (0, {"steps": [1]})


def test_a_closure_is_put_back() -> None:
    count, empty = 0, None
    del empty

    def step() -> int:
        nonlocal count, empty
        count, empty = count + 1, 1
        return count

    state = ReachableState(TORCH, [step])
    assert step() == 1
    state.restore()
    assert count == 0


def test_what_is_left_out_stays_as_it_is() -> None:
    kept, left = [1], [1]
    state = ReachableState(TORCH, [[kept, left]], without=[left])
    kept.append(2)
    left.append(2)
    state.restore()
    assert (kept, left) == ([1], [1, 2])


@given(st.recursive(st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_nesting_is_put_back(value: object) -> None:
    def empty(held: object) -> None:
        inner = list(held.values()) if isinstance(held, dict) else held if isinstance(held, list) else ()
        for item in list(inner):
            empty(item)
        if isinstance(held, (dict, list)):
            held.clear()

    before, root = repr(value), [value]
    state = ReachableState(TORCH, [root])
    empty(root)
    state.restore()
    assert repr(root[0]) == before


@pytest.mark.torch
def test_values_are_kept_up_to_a_number_of_bytes() -> None:
    torch = pytest.importorskip("torch")
    small, large = torch.zeros(2), torch.zeros(100)
    state = ReachableState(torch, [[small, large]], most_bytes=100)
    small.add_(1)
    large.add_(1)
    state.restore()
    assert (small.sum().item(), large.sum().item()) == (0, 100)


@pytest.mark.torch
def test_values_and_gradients_of_tensors_are_put_back() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.ones(2))
    with torch.inference_mode():
        cache = {"k": torch.zeros(2)}

    def step() -> None:
        (weight * 2).sum().backward()
        with torch.inference_mode():
            weight.data.add_(1)
            cache["k"].add_(1)
            cache["v"] = cache["k"]

    state = ReachableState(torch, [step])
    step()
    state.restore()
    assert weight.tolist() == [1, 1] and weight.grad is None
    assert list(cache) == ["k"] and cache["k"].tolist() == [0, 0]


class Slotted:
    __slots__ = ("__hidden", "count", "unset")

    def __init__(self) -> None:
        self.count, self.__hidden = 0, [0]

    def step(self) -> list[int]:
        self.count += 1
        self.__hidden.append(self.count)
        return self.__hidden


def test_slots_are_put_back() -> None:
    slotted = Slotted()
    state = ReachableState(TORCH, [slotted.step])
    assert slotted.step() == [0, 1]
    state.restore()
    assert slotted.count == 0 and slotted.step() == [0, 1] and not hasattr(slotted, "unset")


def test_a_generator_of_random_numbers_draws_the_same_again() -> None:
    owner = SimpleNamespace(rng=random.Random(3), system=random.SystemRandom())
    state = ReachableState(TORCH, [vars(owner)])
    drawn = [owner.rng.random() for _ in range(3)]
    state.restore()
    assert [owner.rng.random() for _ in range(3)] == drawn


@pytest.mark.torch
def test_a_generator_of_torch_draws_the_same_again() -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(3)
    _draws_the_same_again(torch, lambda: torch.rand((), generator=generator).item())


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["default_rng", "RandomState"])
def test_a_generator_of_numpy_draws_the_same_again(kind: str) -> None:
    generator = getattr(pytest.importorskip("numpy").random, kind)(3)
    _draws_the_same_again(pytest.importorskip("torch"), lambda: generator.uniform())


def _draws_the_same_again(torch: Any, draw: Callable[[], float]) -> None:
    state = ReachableState(torch, [draw])
    drawn = draw()
    assert draw() != drawn
    state.restore()
    assert draw() == drawn


def test_iterators_are_named_since_nothing_turns_them_back() -> None:
    ahead = iter([1, 2])
    reached = {"of a list": ahead, "counted": itertools.count(), "made": (item for item in [1]), "kept": [1, 2]}
    state = ReachableState(TORCH, [reached])
    assert state.iterators == ["list_iterator", "count", "generator"]
    assert next(ahead) == 1  # it was not advanced


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        (range(3), range(4)),
        (slice(3), slice(4)),
        (1j, 2j),
        ({1}, {2}),
        (frozenset("a"), frozenset("b")),
        (bytearray(b"a"), bytearray(b"b")),
        (datetime.timedelta(1), datetime.timedelta(2)),
        (fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    ],
)
def test_values_without_attributes_have_digests_that_tell_them_apart(eager: Any, compiled: Any) -> None:
    first, second = (json.dumps(StateDigest(TORCH).of(value)) for value in (eager, compiled))
    assert first != second
    assert StateDigest(TORCH).of(iter([1])) == "list_iterator", "no address, which differs by itself"
