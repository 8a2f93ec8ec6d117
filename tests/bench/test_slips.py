"""A reduction does not slip: the cheapest part of scripts/bench/slips.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "bench"))
import slips


def test_every_graph_has_a_name_of_its_own() -> None:
    names = [case.name for case in slips.cases()]
    assert len(set(names)) == len(names) >= 48


@pytest.mark.torch
@pytest.mark.slow
def test_neither_to_random_numbers_nor_to_another_bug() -> None:
    chosen = (
        "a lost write through a dropout that is off",
        "another bug before, at a short graph",
        "another bug that is only compared, beside one that hides",
    )
    assert slips.measure([case for case in slips.cases() if case.name in chosen]) == []
