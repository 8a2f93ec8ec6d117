"""The reader: envelope, payload, checksums, and what a broken or foreign log does to it."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro_kit.errors import ReproKitError
from repro_kit.failure.failure import Frame
from repro_kit.trace import Reader, read

HEAD = "V1120 17:29:56.314000 4244 torch/_dynamo/utils.py:2350] "


def record(data: dict, payload: str | None = None) -> str:
    if payload is None:
        return HEAD + json.dumps(data) + "\n"
    data = {**data, "has_payload": hashlib.md5(payload.encode()).hexdigest()}
    return HEAD + json.dumps(data) + "".join(f"\n\t{line}" for line in payload.split("\n")) + "\n"


def log(tmp_path: Path, text: str, name: str = "dedicated_log_torch_trace_x.log") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path


def test_envelope(tmp_path):
    text = record({"str": ["/home/me/train.py", 3]}) + record(
        {
            "dynamo_start": {"a": 1},
            "rank": 2,
            "frame_id": 4,
            "frame_compile_id": 1,
            "attempt": 3,
            "stack": [
                {"line": 7, "name": "f", "filename": 3, "loc": "y = g(x)"},
                {"line": 8, "name": "g", "filename": 9},
            ],
        }
    )
    (one,) = read(log(tmp_path, text))
    assert (one.event, one.data, one.compile_id, one.attempt, one.rank) == ("dynamo_start", {"a": 1}, "4/1", 3, 2)
    assert (one.pid, one.time) == (4244, "1120 17:29:56.314000")
    assert one.stack == (Frame("/home/me/train.py", 7, "f", "y = g(x)"), Frame("?", 8, "g"))
    assert one.payload is None and one.intact


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({}, None),
        ({"frame_id": 0, "frame_compile_id": 2}, "0/2"),
        ({"compiled_autograd_id": 1}, "!1"),
        ({"compiled_autograd_id": 1, "frame_id": 0, "frame_compile_id": 2}, "!1/0/2"),
    ],
)
def test_compile_id_is_torchs_text_form(tmp_path, context, expected):
    (one,) = read(log(tmp_path, record({"dynamo_start": {}, **context})))
    assert one.compile_id == expected


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r")))
def test_payload_comes_back_as_written(tmp_path_factory, payload):
    place = log(tmp_path_factory.mktemp("trace"), record({"artifact": {"name": "a"}}, payload) + record({"other": {}}))
    first, second = read(place)
    assert (first.payload, first.intact, first.name, second.event) == (payload, True, "a", "other")


def test_blank_lines_and_noise_do_not_disturb(tmp_path):
    reader = read(log(tmp_path, "noise\n\n" + record({"a": {}}, "p\n\nq") + "\n\n" + record({"b": {}}) + "\n"))
    assert [(one.event, one.payload) for one in reader] == [("a", "p\n\nq"), ("b", None)]
    assert reader.problems.stray == 1


def test_every_cut_off_log_is_read_to_its_last_whole_record(tmp_path):
    whole = record({"a": {}}, "one\ntwo") + record({"b": {}})
    for end in range(len(whole)):
        reader = read(log(tmp_path, whole[:end]))
        events = [one.event for one in reader if one.intact]
        assert events == ["a", "b"][: len(events)]
    assert events == ["a"] or events == ["a", "b"]


def test_changed_payload_is_marked(tmp_path):
    reader = read(log(tmp_path, record({"a": {}}, "secret").replace("secret", "hidden")))
    (one,) = reader
    assert not one.intact and reader.problems.damaged == 1


def test_changed_line_ends_are_no_damage(tmp_path):
    text = record({"a": {}}, "one\ntwo\n")
    (tmp_path / "changed.log").write_bytes(text.replace("\n", "\r\n").encode())
    reader = read(tmp_path / "changed.log")
    assert [(one.payload, one.intact) for one in reader] == [("one\ntwo\n", True)]
    assert not reader.problems.damaged
    (tmp_path / "own.log").write_bytes(record({"a": {}}, "one\r\ntwo").encode())
    assert [(one.payload, one.intact) for one in read(tmp_path / "own.log")] == [("one\r\ntwo", True)]


def test_unknown_events_come_through_and_are_counted(tmp_path):
    reader = read(log(tmp_path, record({"from_the_future": [1]}) * 2 + record({"rank": 0}) + record({"a": 1, "b": 2})))
    assert [one.data for one in reader] == [[1], [1]]
    assert reader.events == {"from_the_future": 2} and reader.problems.eventless == 2


def test_ranks_in_order_of_their_first_record(tmp_path):
    log(tmp_path, record({"late": {}, "rank": 0}).replace("17:29", "17:30"), "dedicated_log_torch_trace_rank_0_a.log")
    log(tmp_path, record({"early": {}, "rank": 1}), "dedicated_log_torch_trace_rank_1_b.log")
    assert [(one.event, one.rank) for one in read(tmp_path)] == [("early", 1), ("late", 0)]


def test_forked_log_takes_names_from_its_parents(tmp_path):
    stack = {"stack": [{"line": 7, "name": "f", "filename": 3}]}
    log(tmp_path, record({"str": ["/home/me/train.py", 3]}) + record({"a": {}}), "parent.log")
    log(tmp_path, record({"dynamo_start": stack}).replace("17:29", "17:30"), "child.log")
    _, child = read(tmp_path)
    assert child.frames("stack") == (Frame("/home/me/train.py", 7, "f"),)


def test_processes_that_share_a_log_have_their_own_names(tmp_path):
    stack = {"stack": [{"line": 7, "name": "f", "filename": 3}]}
    other = HEAD.replace("4244", "4245")
    texts = (record({"str": ["/a.py", 3]}), record({"str": ["/b.py", 3]}).replace(HEAD, other))
    texts += (record({"dynamo_start": stack}), record({"dynamo_start": stack}).replace(HEAD, other))
    assert [one.frames("stack")[0].file for one in read(log(tmp_path, "".join(texts)))] == ["/a.py", "/b.py"]


@pytest.mark.parametrize("field", ['"frame_id": "0"', '"rank": [1]', '"attempt": {}', '"has_payload": 5'])
def test_context_of_other_types_is_damage(tmp_path, field):
    reader = read(log(tmp_path, HEAD + '{"a": {}, ' + field + "}\n" + HEAD + "[1]\n" + record({"b": {}})))
    assert [one.event for one in reader] == ["b"] and reader.problems.damaged + reader.problems.stray == 2


def test_no_trace_is_a_sentence(tmp_path):
    with pytest.raises(ReproKitError, match="There is no trace at"):
        read(tmp_path / "nowhere")


def test_folders_that_look_like_logs_are_passed_over(tmp_path):
    (tmp_path / "old.log").mkdir()
    log(tmp_path, record({"a": {}}), "new.log")
    assert [one.event for one in read(tmp_path)] == ["a"]


def test_a_log_that_cannot_be_read_is_a_sentence(tmp_path):
    with pytest.raises(ReproKitError, match="cannot be read: No such file"):
        list(Reader(tmp_path / "nowhere.log"))
