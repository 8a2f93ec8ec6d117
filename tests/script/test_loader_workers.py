"""Data loaders work in the process of the script."""

import pytest

from repro_kit.script import Script
from repro_kit.script.ranks import without_workers


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "for x in DataLoader(data, 2, num_workers=args.n, prefetch_factor=4, drop_last=True):\n    f(x)\n",
            "for x in DataLoader(data, 2, num_workers=0, prefetch_factor=None, drop_last=True):\n    f(x)\n",
        ),
        (
            "d = Loaders(make(num_workers=1, timeout=3), timeout=3)\n",
            "d = Loaders(make(num_workers=0, timeout=0), timeout=3)\n",
        ),
    ],
)
def test_arguments_about_workers_get_the_values_that_start_none(before: str, after: str) -> None:
    assert without_workers(Script(before)).text == after


def test_a_script_without_workers_stays_as_it_is() -> None:
    program = Script("wait(  timeout=3)\n")
    assert without_workers(program) is program
