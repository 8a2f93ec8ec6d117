"""The first collective in which ranks part."""

from dataclasses import replace

from rank_states import GATHER, REDUCE, state
from repro_kit.trace.rank_history import differing_collectives


def test_collectives_in_another_order_are_named_with_both_lines() -> None:
    words = differing_collectives([state(0, REDUCE), state(1, GATHER)])
    first, second = "all_reduce of [4] at train.py:9 on rank 0", "all_gather of [4] at train.py:12 on rank 1"
    assert words == f"number 1 of group 0 is {first} and {second}."


def test_sizes_differ_only_where_a_collective_needs_one_size() -> None:
    larger = replace(REDUCE, sizes=((8,),))
    assert "[8]" in differing_collectives([state(0, REDUCE), state(1, larger)])
    assert not differing_collectives([state(0, GATHER), state(1, replace(GATHER, sizes=((8,),)))])
