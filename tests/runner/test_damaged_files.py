"""What the probe wrote, damaged on the way: an error or a note, never a traceback."""

import json
from pathlib import Path

import pytest

from repro_kit.errors import StageError
from repro_kit.runner.read_findings import read_applied, read_calls, read_findings, read_recorded

GRAPH = {"number": 0, "pid": 7, "compile_id": "0/0", "code": "def forward(self): pass"}
TIMELINE = {"rank": None, "started": 1.0, "calls": [{"name": "f", "seconds": 0.1, "compiled": True}], "left_out": 0}


def event(name: str, graph: int | None = 0, **more: object) -> str:
    return json.dumps({"event": name, "graph": graph, "time": 1.0, **more})


def test_a_record_without_damage_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / "events-7.jsonl").write_text(f"{event('compile-begin')}\n{event('compile-end')}\n")
    (tmp_path / "graph-0-7.json").write_text(json.dumps(GRAPH))
    (recorded,) = read_recorded(tmp_path)
    assert recorded.problems == ()
    assert [graph.number for graph in recorded.graphs] == [0]
    assert [one.event for one in recorded.events] == ["compile-begin", "compile-end"]


def test_half_a_line_at_the_end_is_that_of_a_process_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "events-7.jsonl").write_text(f"{event('compile-begin')}\n{event('compile-end')[:20]}")
    (recorded,) = read_recorded(tmp_path)
    assert recorded.problems == ()
    assert [one.event for one in recorded.events] == ["compile-begin"]


@pytest.mark.parametrize(
    "line", ["\x00" * 10, "[1]", "{}", event("begins"), event("compile-call", None, settings={"backend": "eager"})]
)
def test_a_damaged_event_is_left_out_and_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "events-7.jsonl").write_text(f"{event('compile-begin')}\n{line}\n{event('compile-end')}\n")
    (recorded,) = read_recorded(tmp_path)
    assert [one.event for one in recorded.events] == ["compile-begin", "compile-end"]
    (problem,) = recorded.problems
    assert problem.startswith("events-7.jsonl, line 2: ")


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b'{"number": 0', b'{"number": "x", "pid": 7, "compile_id": "0/0"}'])
def test_a_damaged_graph_is_left_out_and_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "events-7.jsonl").write_text(f"{event('compile-begin')}\n")
    (tmp_path / "graph-0-7.json").write_bytes(data)
    (recorded,) = read_recorded(tmp_path)
    assert recorded.graphs == ()
    (problem,) = recorded.problems
    assert problem.startswith("graph-0-7.json: ")


def test_measurements_are_read_by_rank_whatever_rank_says(tmp_path: Path) -> None:
    for pid, rank, name in ((1, "1", "second"), (2, None, "first"), (3, "none", "third")):
        call = {"name": name, "seconds": 0.1, "compiled": False}
        (tmp_path / f"timeline-{pid}.json").write_text(
            json.dumps({"rank": rank, "started": float(pid), "calls": [call]})
        )
    assert [call.name for call in read_calls(tmp_path)] == ["first", "third", "second"]


@pytest.mark.parametrize("data", [b"", b"[]", b'{"calls": 3}', json.dumps(TIMELINE).encode()[:-3]])
def test_damaged_measurements_are_one_clear_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "timeline-7.json").write_bytes(data)
    with pytest.raises(StageError, match=r"are damaged \(timeline-7\.json: .*run the command again\.$"):
        read_calls(tmp_path)


def test_a_damaged_application_is_named_since_the_numbers_behind_it_are_wrong(tmp_path: Path) -> None:
    line = json.dumps(["inductor", "lowerings", "aten.add", ""])
    (tmp_path / "applied-7.jsonl").write_text(f"{line}\n[1]\n{line}\n{line[:9]}")
    applied, problems = read_applied(tmp_path)
    assert list(map(tuple, applied)) == [("inductor", "lowerings", "aten.add", "")] * 2
    assert [problem.partition(":")[0] for problem in problems] == ["applied-7.jsonl, line 2"]


def test_damaged_findings_become_problems(tmp_path: Path) -> None:
    (tmp_path / "hello-7.json").write_text("{")
    (tmp_path / "exception-x.json").write_text('{"time": 1.0, "exceptions": []}')
    findings = read_findings(tmp_path)
    assert [problem.partition(":")[0] for problem in findings.problems] == ["hello-7.json"]
    assert [uncaught.pid for uncaught in findings.exceptions] == [0]
