"""What of the user's machine a `repro.py` needs is found by putting it back, in few questions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro_kit.stages.bundle.checking import DIRECTORY, HOME, Needs, carried, find_needs

NOISE = {f"NOISE_{number}": str(number) for number in range(60)}
USERS = {
    **NOISE,
    "HOME": "/home/me",
    "PWD": "/home/me/work",
    "ACME_MODE": "fast",
    "TORCHINDUCTOR_FREEZING": "1",
    "TORCH_LOGS": "dynamo",
    "PATH": "/bin",
    "TMPDIR": "/scratch",
    "TORCH_TRACE": "/trace",
}


BOUND = 3 + 5 + 3 + 4 * 7  # which part, chance, once more, and the logarithm of 70


class Machine:
    """A `repro.py` that fails when all of `wanted` is there."""

    def __init__(self, *wanted: str) -> None:
        self.wanted, self.asked = set(wanted), 0

    def __call__(self, variables: Mapping[str, str], beside: Path | None) -> bool:
        self.asked += 1
        assert not {"TMPDIR", "TORCH_TRACE", "PWD"} & set(variables)  # a run has its own, or would write to the user's
        return self.wanted <= {*variables, *([DIRECTORY] if beside else [])}


@pytest.mark.parametrize("wanted", [["ACME_MODE"], [HOME], [DIRECTORY], ["TORCHINDUCTOR_FREEZING"], ["NOISE_7"]])
def test_a_need_is_found_in_few_runs(wanted: list[str]) -> None:
    machine = Machine(*wanted)
    assert find_needs(machine, USERS, Path("/home/me/work")) == Needs(tuple(wanted))
    assert machine.asked <= BOUND


def test_where_nothing_helps_one_run_tells() -> None:
    machine = Machine("what is not there")
    assert find_needs(machine, USERS, Path("/w")) is None
    assert machine.asked == 1


@given(st.sets(st.sampled_from(sorted({*USERS} - {"TMPDIR", "TORCH_TRACE", "PWD"})), max_size=4))
def test_whatever_is_needed_is_among_what_is_named_within_the_bound(wanted: set[str]) -> None:
    machine = Machine(*wanted)
    found = find_needs(machine, USERS, Path("/w"))
    assert found is not None
    assert wanted <= set(found.names) or not wanted
    assert not found.sure or wanted == set(found.names)
    assert machine.asked <= BOUND


def test_what_fails_by_chance_is_no_need() -> None:
    outcomes = iter([True, False, False, True])

    def fails(variables: Mapping[str, str], beside: Path | None) -> bool:
        return next(outcomes)

    assert find_needs(fails, USERS, Path("/w")) == Needs(())


def test_a_need_with_which_it_does_not_fail_every_time_is_not_named() -> None:
    machine, alone = Machine("ACME_MODE"), iter([True, True, False])

    def fails(variables: Mapping[str, str], beside: Path | None) -> bool:
        return machine(variables, beside) and (len(variables) > 1 or next(alone, False))

    assert find_needs(fails, USERS, Path("/w")) is None


def test_only_what_concerns_the_compiler_and_holds_nothing_private_is_carried() -> None:
    variables = {
        "TORCHINDUCTOR_FREEZING": "1",
        "TORCHINDUCTOR_NAME": "zebra-lantern",
        "TORCHINDUCTOR_PLACE": "/home/me/x",
        "TORCH_COMPILE_TOKEN": "1",
        "PYTHONHASHSEED": "3",
        "OMP_NUM_THREADS": "1",
        "ACME_MODE": "fast",
        "HOME": "/home/me",
    }
    needs = Needs(tuple(variables))

    def redact(text: str) -> str:
        return text.replace("zebra-lantern", "REDACTED_VALUE_1")

    held = carried(needs, variables, redact, late=True)
    assert held == {"TORCHINDUCTOR_FREEZING": "1", "OMP_NUM_THREADS": "1"}
    assert carried(needs, variables, redact, late=False).keys() - held.keys() == {"PYTHONHASHSEED"}
    words = needs.words(held)
    assert "a file in the home directory" in words and "the environment variable ACME_MODE" in words
    assert not {"fast", "zebra-lantern", "/home/me"} & set(" ".join(words).split())


def test_needs_that_were_not_told_apart_are_said_to_be() -> None:
    assert Needs(("A", "B"), sure=False).words({}) == ("some of the environment variables A, B",)
