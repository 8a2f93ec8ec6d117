"""What is said of the graphs that do not fail alone."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION, Artifact, Observation, ObservedFailure
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, signature_of
from repro_kit.files import write_atomic
from repro_kit.graph import parse
from repro_kit.graph.reading.graph_record import GraphRecord
from repro_kit.options.stages import CaptureOptions
from repro_kit.probe.repro_probe.protocol.failure_data import RANDOM_NUMBERS, WRITE_ORDER
from repro_kit.recipe import Recipe
from repro_kit.stages.capture import graph_search, search_order
from repro_kit.stages.capture.program_forms import Attempt
from repro_kit.stages.capture.recording import RecordedGraphs
from repro_kit.ui import SilentUi
from texts import program


class Answering:
    """An oracle with one answer for every program."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.texts: list[str] = []
        self.kernels: list[Path] = []

    def share(self, libraries: Path) -> None:
        self.kernels.append(libraries)

    def check(self, texts: Sequence[str], *_: Any, **__: Any) -> Iterator[Verdict]:
        self.texts += texts
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


@pytest.mark.parametrize(
    ("rounding", "tried"),
    [(False, [(0.01, 0.0001), (None, None), (0.01, 0.0001)]), (True, [(0.01, 0.0001), (None, None)])],
)
def test_an_artifact_is_held_to_the_scripts_tolerance_and_not_asked_where_recorded_values_show_rounding(
    rounding: bool, tried: list[tuple[float | None, float | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle = Answering(Verdict(Status.PASS, rounding=rounding))
    monkeypatch.setattr(graph_search, "open_oracle", lambda *_: nullcontext(oracle))
    monkeypatch.setattr(
        search_order, "attempts_of", lambda _, kind, files, tolerance, *, plainest: iter([_alone(tolerance)])
    )
    monkeypatch.setattr(search_order, "from_runnable", parse)
    write_atomic(tmp_path / "runnable.py", _alone(None).text.encode())
    own = Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference("value", "", 1.0), tolerance=(0.01, 0.0001))
    observation = Observation(
        ("a.py",),
        1,
        None,
        False,
        1.0,
        0,
        None,
        None,
        (ObservedFailure(own, signature_of(own), source="measured"),),
        (Artifact("0/0", "runnable.py"),),
    )
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    case.write("observe/run.json", observation)
    recording = RecordedGraphs(tmp_path, (), ())
    search_order.try_graphs(case, CaptureOptions(), SilentUi(), observation, recording)
    recipes = [parse(text).recipe for text in oracle.texts]
    assert [(recipe.rtol, recipe.atol) for recipe in recipes] == tried
    assert set(oracle.kernels) == {case.path / "observe" / "kernels"}, "what the observed run has built"


def _alone(tolerance: tuple[float, float] | None) -> Attempt:
    rtol, atol = tolerance or (None, None)
    recipe = Recipe(rtol=rtol, atol=atol)
    text = program("return (x,)", "return [(torch.ones(2),)]", rtol=rtol, atol=atol)
    return Attempt(text, recipe, GraphRecord(number=0, pid=0, compile_id="0/0"), "")


@pytest.mark.parametrize(
    ("in_eager", "is_taken"), [(RunOutcome.PASSES, True), (RunOutcome.FAILS_ALIKE, False)], ids=["depends", "does not"]
)
def test_a_graph_that_shares_other_memory_is_taken_where_the_scripts_own_check_depends_on_it(
    in_eager: RunOutcome, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the script writes to a result is then a wrong value of its state, which the graph alone does not show."""
    shared = Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference("alias", "output 0"))
    search = search_with(Verdict(Status.FAIL, failure=shared), Kind.ACCURACY, tmp_path, monkeypatch)
    own = Failure(Kind.ACCURACY, Phase.COMPARE, difference=Difference("value", "", 1.0, 1.0, 1.0))
    failures = (ObservedFailure(own, signature_of(own), source="exception"),)
    search.case.write("observe/run.json", Observation(("a.py",), 1, None, False, 1.0, 0, None, None, failures))
    search.target = signature_of(own)
    monkeypatch.setattr(graph_search.OwnCheck, "ending", lambda *_: in_eager)
    monkeypatch.setattr(graph_search.settle, "by_runs", lambda *_: None)
    attempt = Attempt("", Recipe(), GraphRecord(number=0, pid=0, compile_id="0/0"), "")
    taken, _ = search.first(iter([attempt]))
    assert (taken is attempt) == is_taken
    assert (search.signature == signature_of(shared)) == is_taken


def test_graphs_are_searched_again_once_runs_show_that_the_script_has_lost_an_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    case.write("observe/run.json", Observation(("a.py",), 1, None, False, 1.0, 0, None, None))
    looked_for: list[Kind | None] = []

    def searched(case: Case, options: CaptureOptions, ui: SilentUi, *_: Any) -> search_order.Searched:
        kind = case.file.signature.kind if case.file.signature else None
        looked_for.append(kind)
        search = graph_search.GraphSearch(case, options, ui, case.file.signature, kind or Kind.ACCURACY, tmp_path)
        return search_order.Searched(search, None, "dynamo", [])

    def shown_by_runs(case: Case, *_: Any) -> None:
        case.update(signature=signature_of(Failure(Kind.VALIDATION, Phase.EAGER)))

    monkeypatch.setattr(search_order, "try_graphs", searched)
    monkeypatch.setattr(search_order.settle, "by_runs", shown_by_runs)
    observation = case.load(OBSERVATION)
    recording = RecordedGraphs(tmp_path, (), ())
    search_order.search_in_all_ways(case, CaptureOptions(), SilentUi(), observation, recording)
    assert looked_for == [None, Kind.VALIDATION]


def test_no_graph_is_tried_where_only_several_compilations_reach_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_order, "attempts_of", lambda *_, **__: pytest.fail("a graph is tried"))
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    reached = ExceptionLink("torch._dynamo.exc.FailOnRecompileLimitHit", "Hard failure due to fullgraph=True", ())
    case.update(signature=signature_of(Failure(Kind.DYNAMO_ERROR, exceptions=(reached,))))
    observation = Observation(("a.py",), 1, None, False, 1.0, 0, None, None)
    case.write("observe/run.json", observation)
    recording = RecordedGraphs(tmp_path, (), ())
    searched = search_order.try_graphs(case, CaptureOptions(), SilentUi(), observation, recording)
    assert searched.attempt is None and "several compilations" in searched.hopeless
