"""With how many ranks a script is run while it is reduced."""

import json
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.script import Script
from repro_kit.stages.minify.source_files import rank_views

PROGRAM = Script("import torch.distributed as dist\ndist.init_process_group('gloo')\n")


def case_of(directory: Path, command: str, ranks: int) -> Case:
    """A case of `command`, in which so many ranks were seen."""
    argv = tuple(command.split())
    case = Case.create(directory / "a.repro", Subject("command", argv, str(directory), "python"), "2026-01-01")
    probe = directory / "a.repro/observe/probe"
    probe.mkdir(parents=True)
    (directory / "a.repro/observe/trace").mkdir()
    for rank in range(ranks):
        state = {"rank": rank, "size": ranks, "time": 1.0, "doing": "python"}
        (probe / f"rank-{10 + rank}.json").write_text(json.dumps(state))
    return case


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc-per-node 4 train.py",
        "torchrun --nproc-per-node auto train.py",
        "accelerate launch --config_file four.yaml train.py",
    ],
)
def test_a_launcher_may_leave_the_number_of_ranks_to_what_was_seen(tmp_path: Path, command: str) -> None:
    views = rank_views(case_of(tmp_path, command, 4), PROGRAM, together=True)
    assert [(view.ranks, view.note) for view in views] == [(2, "2 of 4 ranks are enough"), (4, "")]


def test_a_launcher_of_one_rank_runs_the_script_as_it_is(tmp_path: Path) -> None:
    (view,) = rank_views(case_of(tmp_path, "accelerate launch train.py", 0), PROGRAM, together=True)
    assert (view.program.text, view.ranks) == (PROGRAM.text, 1)


def test_what_is_left_may_need_no_process_group(tmp_path: Path) -> None:
    view = next(rank_views(case_of(tmp_path, "torchrun --nproc-per-node 2 train.py", 2), PROGRAM, together=False))
    assert "in a fake process group" in view.note_of(view.program)
    assert view.note_of(Script("import torch\n")) == "rank 0 of 2 fails alone, without a process group"
