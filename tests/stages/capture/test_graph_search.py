"""What is said of the graphs that do not fail alone."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Observation
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.graph.reading.graph_record import GraphRecord
from repro_kit.options.stages import CaptureOptions
from repro_kit.recipe import Recipe
from repro_kit.stages.capture import graph_search
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.ui import SilentUi


class Passing:
    """An oracle with which every program passes."""

    def check(self, texts: Sequence[str], *_: Any, **__: Any) -> Iterator[Verdict]:
        return (Verdict(Status.PASS) for _ in texts)


def test_each_form_of_a_graph_that_passes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_search, "open_oracle", lambda *_: nullcontext(Passing()))
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    case.write("observe/run.json", Observation(("a.py",), 1, None, False, 1.0, 0, None, None))
    search = graph_search.GraphSearch(case, CaptureOptions(), SilentUi(), None, Kind.CRASH, tmp_path)
    graph = GraphRecord(number=0, pid=0, compile_id="0/0")
    attempts = (Attempt("", Recipe(), graph, how) for how in ("", "dynamic=True"))
    assert search.first(attempts) == (None, ["graph 0/0 alone: pass", "graph 0/0 alone dynamic=True: pass"])
