"""The recording of a run of several ranks."""

import json
import sys
from pathlib import Path
from typing import Literal

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Observation, ObservedFailure
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.stages.capture.recording import of_observed_run


def test_the_graphs_of_the_rank_that_failed_come_first(tmp_path: Path) -> None:
    subject = Subject("command", ("torchrun", "--nproc-per-node", "3", "train.py"), str(tmp_path), sys.executable)
    case = Case.create(tmp_path / "a.repro", subject, "2030-01-01T00:00:00Z")
    probe = tmp_path / "a.repro/observe/probe"
    probe.mkdir(parents=True)
    for pid in (10, 11, 12):
        (probe / f"events-{pid}.jsonl").write_text(
            json.dumps({"event": "compile-begin", "graph": 0, "time": 1.0}) + "\n"
        )
    link = {"type": "ValueError", "message": "the loss is off", "frames": []}
    (probe / "exception-12.json").write_text(json.dumps({"time": 2.0, "exceptions": [link]}))
    recording = of_observed_run(case, Observation((), 1, None, False, 1.0, 0, sys.executable, "2.13", recorded=True))
    assert recording is not None
    assert [process.pid for process in recording.processes] == [12, 10, 11]

    def tried(kind: Kind, source: Literal["exception", "trace"]) -> list[int]:
        seen = ObservedFailure(Failure(kind), signature_of(Failure(kind)), source=source)
        return [process.pid for process in recording.of_failure(seen)]

    assert tried(Kind.COMPILE_ERROR, "exception") == [12]
    assert tried(Kind.COMPILE_ERROR, "trace") == [12, 10, 11], "any rank may have caught it"
    assert tried(Kind.ACCURACY, "exception") == [12, 10, 11], "another rank may have sent wrong values"
