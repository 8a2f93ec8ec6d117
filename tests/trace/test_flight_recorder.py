"""Dumps of torch's flight recorder: reading them, and comparing the ranks."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from repro_kit.trace.insights.collectives import Collectives, collectives_in, dumps_in, is_dump, read_dump

LINES = {"all_reduce": 9, "barrier": 7, "all_gather": 12}


def entry(number: int, name: str = "all_reduce", *, done: bool = True, group: str = "0", **more: Any) -> dict[str, Any]:
    frames = [
        {"name": name, "filename": "/usr/lib/python3.11/site-packages/torch/distributed/c10d.py", "line": 1},
        {"name": "step", "filename": "/user/train.py", "line": LINES[name]},
    ]
    return {
        "profiling_name": f"nccl:{name}",
        "process_group": (group, "default_pg"),
        "collective_seq_id": number,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "time_created_ns": number * 10**9,
        "state": "completed" if done else "started",
        "retired": done,
        "is_p2p": False,
        "frames": frames,
        **more,
    }


def dump(directory: Path, rank: int, *entries: dict[str, Any], members: str = "") -> None:
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": members}} if members else {}
    content = {"version": "2.10", "pg_config": groups, "entries": list(entries)}
    (directory / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, protocol=2))


def test_a_pickle_and_its_json_say_the_same(tmp_path: Path) -> None:
    content = {"entries": [entry(1), entry(2, is_p2p=True), entry(2, "barrier", done=False)], "pg_config": {}}
    (tmp_path / "trace_3").write_bytes(pickle.dumps(content))
    (tmp_path / "trace_3.json").write_text(json.dumps(content))
    one, other = map(read_dump, dumps_in(tmp_path))
    assert one == other and one.rank == 3
    assert [(call.name, call.line, call.done) for call in one.collectives] == [
        ("all_reduce", "/user/train.py:9", True),
        ("barrier", "/user/train.py:7", False),
    ]


def test_a_pickle_of_a_stranger_runs_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    (tmp_path / "trace_0").write_bytes(pickle.dumps({"entries": [Evil()]}))
    with pytest.raises(ValueError, match=r"trace_0 is not a dump .*: it names posix\.mkdir"):
        read_dump(tmp_path / "trace_0")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("data", [b"\x80\x02", b"{", b'{"a": 1}', pickle.dumps([1]), pickle.dumps({"entries": [3]})])
def test_what_is_damaged_is_said_and_the_rest_is_read(tmp_path: Path, data: bytes) -> None:
    dump(tmp_path, 0, entry(1))
    (tmp_path / "nccl_trace_rank_1").write_bytes(data)
    found = collectives_in(tmp_path)
    assert [rank.rank for rank in found.ranks] == [0]
    (sentence,) = found.unread
    assert sentence.startswith("nccl_trace_rank_1 is not a dump of torch's flight recorder")


def test_other_files_are_no_dumps(tmp_path: Path) -> None:
    (tmp_path / "dedicated_log_torch_trace_rank_0.log").write_text("V1120")
    (tmp_path / "notes_1").write_text("text")
    os.mkfifo(tmp_path / "pipe_1")
    assert not any(is_dump(path) for path in tmp_path.iterdir())
    assert collectives_in(tmp_path) == Collectives()


def test_a_second_dump_of_a_rank_is_left_out(tmp_path: Path) -> None:
    dump(tmp_path, 0, entry(1))
    (tmp_path / "older_0").write_bytes((tmp_path / "nccl_trace_rank_0").read_bytes())
    found = collectives_in(tmp_path)
    assert len(found.ranks) == 1 and found.unread == ("older_0 was left out: another dump is of rank 0 too.",)


def test_the_first_collective_that_differs_is_named_with_its_ranks(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        dump(tmp_path, rank, entry(1), entry(2, "all_gather" if rank == 1 else "all_reduce", done=False))
    one, other = "all_reduce of [4] at train.py:9 on ranks 0, 2", "all_gather of [4] at train.py:12 on rank 1"
    assert collectives_in(tmp_path).apart == f"number 2 of group 0 is {one} and {other}."


def test_the_rank_that_does_not_come_is_named_with_its_last_collective(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        dump(tmp_path, rank, entry(1, "barrier"), *([entry(2, done=False)] if rank != 1 else []))
    waiting = collectives_in(tmp_path).waiting
    assert waiting is not None and waiting.ranks == (0, 2)
    ((rank, last),) = waiting.absent
    assert rank == 1 and last is not None and last.name == "barrier"


def test_a_rank_of_another_group_is_not_waited_for(tmp_path: Path) -> None:
    dump(tmp_path, 0, entry(1, group="1", done=False))
    dump(tmp_path, 1, entry(1))
    waiting = collectives_in(tmp_path).waiting
    assert waiting is not None and waiting.absent == ()


def test_a_member_without_a_dump_is_named(tmp_path: Path) -> None:
    for rank in (0, 2):
        dump(tmp_path, rank, entry(1, done=False), members="[0, 1, 2]")
    assert collectives_in(tmp_path).undumped == (1,)


def test_ranks_that_agree_have_nothing_to_say(tmp_path: Path) -> None:
    for rank in (0, 1):
        dump(tmp_path, rank, entry(1), entry(2, "all_gather", input_sizes=[[rank]]))
    found = collectives_in(tmp_path)
    assert (found.apart, found.waiting, found.undumped) == ("", None, ())
