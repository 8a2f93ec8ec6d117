import json
from pathlib import Path

import pytest

from repro_kit.errors import ReproKitError
from repro_kit.reduce import Answer, Event, RunOutcome
from repro_kit.stages.minify.progress import events_to

BEGUN = Event("pass", "cut_end", 12, 3)
ANSWERED = Event("query", "cut_end", 12, 4, Answer(RunOutcome.FAILS_OTHERWISE, 1.5, "another"), size=5)
ENDED = Event("end", "cut_end", 12, 9, stopped="budget")


def test_each_event_is_a_line_and_is_passed_on(tmp_path: Path) -> None:
    path, seen = tmp_path / "events.jsonl", []
    for event in (BEGUN, ANSWERED, ENDED):  # appended to
        with events_to(str(path), seen.append) as listen:
            listen(event)
    assert seen == [BEGUN, ANSWERED, ENDED]
    first, second, last = (json.loads(line) for line in path.read_text().splitlines())
    assert first.pop("time") <= second.pop("time") <= last.pop("time")
    assert first == {"kind": "pass", "pass": "cut_end", "statements": 12, "queries": 3}
    answer = {"outcome": "other", "seconds": 1.5, "note": "another", "size": 5}
    assert second == {**first, "kind": "query", "queries": 4, **answer}
    assert last == {**first, "kind": "end", "queries": 9, "stopped": "budget"}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReproKitError, match="Cannot write the events"), events_to(str(tmp_path), lambda _: None):
        raise AssertionError("not reached")
