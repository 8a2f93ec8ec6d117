"""What is said of the graphs that do not fail alone."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Observation
from repro_kit.failure.failure import Difference, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.graph.reading.graph_record import GraphRecord
from repro_kit.options.stages import CaptureOptions
from repro_kit.probe.repro_probe.protocol.failure_data import RANDOM_NUMBERS, WRITE_ORDER
from repro_kit.recipe import Recipe
from repro_kit.stages.capture import graph_search
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.ui import SilentUi


class Answering:
    """An oracle with one answer for every program."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict

    def check(self, texts: Sequence[str], *_: Any, **__: Any) -> Iterator[Verdict]:
        return (self.verdict for _ in texts)


def search_with(
    verdict: Verdict, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> graph_search.GraphSearch:
    monkeypatch.setattr(graph_search, "open_oracle", lambda *_: nullcontext(Answering(verdict)))
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    case.write("observe/run.json", Observation(("a.py",), 1, None, False, 1.0, 0, None, None))
    return graph_search.GraphSearch(case, CaptureOptions(), SilentUi(), None, kind, tmp_path)


def test_a_wrong_result_that_eager_alone_has_too_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undefined = Failure(Kind.ACCURACY, difference=Difference("value", "output 0"), doubts=(RANDOM_NUMBERS, WRITE_ORDER))
    search = search_with(Verdict(Status.FAIL, failure=undefined), Kind.ACCURACY, tmp_path, monkeypatch)
    attempt = Attempt("", Recipe(), GraphRecord(number=0, pid=0, compile_id="0/0"), "")
    why = f"differs from eager only where its results are not defined ({WRITE_ORDER})"
    assert search.first(iter([attempt])) == (None, [f"graph 0/0 alone: {why}"])


def test_each_form_of_a_graph_that_passes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_with(Verdict(Status.PASS), Kind.CRASH, tmp_path, monkeypatch)
    graph = GraphRecord(number=0, pid=0, compile_id="0/0")
    attempts = (Attempt("", Recipe(), graph, how) for how in ("", "dynamic=True"))
    assert search.first(attempts) == (None, ["graph 0/0 alone: pass", "graph 0/0 alone dynamic=True: pass"])
