from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.failure.failure import ExceptionLink
from repro_kit.runner.read_findings import Findings, RankState, TorchProcess, UncaughtException
from repro_kit.verdicts.ranks import RankReport, rank_report, suspects

LOG = (Path(__file__).parents[1] / "trace/fixtures/insights/size_one.log").read_text()
TWO_RANKS = Findings(processes=tuple(TorchProcess(9, "python", "3.11", "2.13.0", 1.0, rank) for rank in ("0", "1")))


def write(trace: Path, rank: int, text: str) -> None:
    (trace / f"rank_{rank}.log").write_text(text.replace('"frame_id"', f'"rank": {rank}, "frame_id"'))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (LOG, None),
        (LOG.replace("l_x_ + 1", "l_x_ + 2"), "rank 0 and rank 1 have different graphs in 0/0"),
        (LOG.replace('"frame_id": 0', '"frame_id": 7'), "only rank 1 compiled 7/0"),
    ],
)
def test_the_first_compile_in_which_ranks_differ_is_named(tmp_path: Path, other: str, words: str | None) -> None:
    write(tmp_path, 0, LOG)
    write(tmp_path, 1, other)
    sentences = rank_report(tmp_path, TWO_RANKS).sentences
    assert bool(sentences) == (words is not None)
    assert words is None or words in sentences[0]


def test_ranks_that_all_differ_are_listed_in_their_order(tmp_path: Path) -> None:
    for rank in (2, 0, 1):
        write(tmp_path, rank, LOG.replace("l_x_ + 1", f"l_x_ + {7 + rank}"))
    processes = (*TWO_RANKS.processes, replace(TWO_RANKS.processes[0], rank="2"))
    words = rank_report(tmp_path, Findings(processes=processes)).sentences[0]
    assert "ranks 0, 1 and 2 all have different graphs in 0/0" in words


def test_the_ranks_that_agree_are_listed_in_their_order(tmp_path: Path) -> None:
    for file, rank, number in (("a", 3, 1), ("b", 1, 1), ("c", 2, 7), ("d", 0, 7)):
        text = LOG.replace("l_x_ + 1", f"l_x_ + {number}").replace('"frame_id"', f'"rank": {rank}, "frame_id"')
        (tmp_path / f"{file}.log").write_text(text)
    words = rank_report(tmp_path, TWO_RANKS).sentences[0]
    assert "ranks 0, 2 and ranks 1, 3 have different graphs in 0/0" in words


def test_the_guard_is_named_that_made_only_one_rank_compile_again(tmp_path: Path) -> None:
    write(tmp_path, 0, LOG)
    write(tmp_path, 1, LOG.replace('"frame_id": 0', '"frame_id": 7'))
    words = "Rank 1 compiled <lambda> again because of the guard tensor 'x' size mismatch at index 0."
    assert rank_report(tmp_path, TWO_RANKS).sentences[1].startswith(words)


def test_where_the_graphs_part_is_said_as_far_as_the_trace_shows_it(tmp_path: Path) -> None:
    write(tmp_path, 0, LOG)
    write(tmp_path, 1, LOG.replace("l_x_ + 1", "l_x_ + 2"))
    _, parting = rank_report(tmp_path, TWO_RANKS).sentences
    assert parting.startswith("The graphs part where rank 0 calls `")
    write(tmp_path, 1, LOG.replace("return (", "return  ("))
    (only,) = rank_report(tmp_path, TWO_RANKS).sentences
    assert "different graphs in 0/0" in only


def test_the_rank_that_failed_by_itself_is_tried_alone_first(tmp_path: Path) -> None:
    states = tuple(RankState(rank, 4, 1.0, "python", pid=10 + rank) for rank in range(4))
    peer = UncaughtException(10, 1.0, (ExceptionLink("RuntimeError", "Connection closed by peer [127.0.0.1]"),))
    crashed = Findings(exceptions=(peer,), ranks=states, stacks={12: "Fatal Python error: Segmentation fault"})
    assert suspects(tmp_path, crashed) == (2, 0, 1, 3)
    own = UncaughtException(13, 2.0, (ExceptionLink("ValueError", "the loss is off"),))
    assert suspects(tmp_path, replace(crashed, exceptions=(peer, own)))[:2] == (3, 2)


def test_a_run_of_one_rank_has_no_differences(tmp_path: Path) -> None:
    write(tmp_path, 0, LOG)
    assert rank_report(tmp_path, Findings(processes=TWO_RANKS.processes[:1])) == RankReport()
