"""The watch that ends a run whose ranks wait for each other, on files as a run leaves them."""

import os
from pathlib import Path

import pytest

from rank_states import write_state
from repro_kit.runner.supervised import EndedEarly
from repro_kit.verdicts.deadlocks import DeadlockWatch


def test_ranks_that_wait_in_different_collectives_end_the_run(tmp_path: Path) -> None:
    write_state(tmp_path, os.getpid(), 0, "all_reduce", 30.0)
    write_state(tmp_path, os.getppid(), 1, "all_gather", 30.0)
    watch = DeadlockWatch(tmp_path)
    watch.look(1.0)  # too soon to look
    with pytest.raises(EndedEarly):
        watch.look(4.0)
    assert "rank 0 waits in all_reduce; rank 1 waits in all_gather" in watch.reason


@pytest.mark.parametrize(("other", "waited"), [("all_reduce", 30.0), ("all_gather", 3.0)])
def test_ranks_that_may_go_on_do_not(tmp_path: Path, other: str, waited: float) -> None:
    write_state(tmp_path, os.getpid(), 0, "all_reduce", 30.0)
    write_state(tmp_path, os.getppid(), 1, other, waited)
    watch = DeadlockWatch(tmp_path)
    watch.look(4.0)
    assert watch.reason == ""
