"""What a bundle says of itself, by what the stages found."""

from pathlib import Path

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import (
    CAPTURE,
    ENVIRONMENT,
    OBSERVATION,
    REDUCED_FAILURE,
    REDUCTION,
    Capture,
    Environment,
    Observation,
    ObservedFailure,
    Reduction,
)
from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.stages.bundle.forms import candidates, results_of

_TRIED = [f"graph 0/{number} alone: pass" for number in range(9)]


def test_the_reason_for_a_whole_script_names_one_of_the_graphs_that_were_tried(tmp_path: Path) -> None:
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    failures = (ObservedFailure(Failure(Kind.CRASH), Signature(Kind.CRASH)),)
    case.store(OBSERVATION, Observation(("a.py",), 1, None, False, 5.0, 0, "python", "2", failures))
    case.store(ENVIRONMENT, Environment("3.11", "python", "Linux", "2.13.0"))
    case.store(CAPTURE, Capture("script", graphs=9, note="; ".join(["none of 9 graphs fails alone", *_TRIED])))
    for stage in ("observe", "capture"):
        case.record(StageRecord(stage, "done"))
    (form,) = candidates(case, results_of(case))
    assert form.note == "none of 9 graphs fails alone; graph 0/0 alone: pass"


PROGRAM = """# repro-kit program 1
import torch

RECIPE = {'backend': 'eager'}


def graph(x):
    return (x.sin(),)


def calls():
    x = torch.randn(1)
    return [(x,)]
"""


def test_a_change_is_told_since_the_captured_graph_where_the_script_does_not_say_what_differs(tmp_path: Path) -> None:
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    own = Signature(Kind.ACCURACY, ("AssertionError",), "the model is off")
    case.store(OBSERVATION, Observation(("a.py",), 1, None, False, 5.0, 0, "python", "2", (_observed(own),)))
    case.store(ENVIRONMENT, Environment("3.11", "python", "Linux", "2.13.0"))
    gradient = Signature(Kind.ACCURACY, difference="value", places=("gradient",))
    case.store(CAPTURE, Capture("program", signature=gradient))
    for stage in ("observe", "capture"):
        case.record(StageRecord(stage, "done"))
    results = results_of(case)
    assert results.change_to(gradient, is_graph=True) == ""
    both = Signature(Kind.ACCURACY, difference="value", places=("gradient", "output"))
    assert "in the captured graph it is the values of a gradient, in repro.py" in results.change_to(both, is_graph=True)
    case.store(CAPTURE, Capture("program", signature=gradient, of_backward=True))
    output = Signature(Kind.ACCURACY, difference="value", places=("output",))
    assert "are gradients in the script" in results_of(case).change_to(output, is_graph=True)
    assert "the graph is" not in results_of(case).change_to(output, is_graph=False).lower()


def _observed(signature: Signature) -> ObservedFailure:
    return ObservedFailure(Failure(signature.kind), signature)


def test_a_reduced_program_is_told_by_its_own_failure(tmp_path: Path) -> None:
    case = Case.create(tmp_path, Subject("script", ("a.py",), str(tmp_path), "python"), "2030-01-01")
    signature = Signature(Kind.RUNTIME_ERROR, ("AssertionError",), "expected size #==#")

    def failing(size: int) -> ObservedFailure:
        message = f"expected size {size}=={size}"
        return ObservedFailure(
            Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("AssertionError", message),)), signature
        )

    case.store(OBSERVATION, Observation(("a.py",), 1, None, False, 5.0, 0, "python", "2", (failing(6),)))
    case.store(ENVIRONMENT, Environment("3.11", "python", "Linux", "2.13.0"))
    case.store(CAPTURE, Capture("program", "dynamo", 1, "0/0", 1, signature=signature))
    case.store(REDUCTION, Reduction(2, 1, 3, 1.0, verified=True, self_contained=True))
    case.store(REDUCED_FAILURE, failing(2))
    for stage in ("observe", "capture", "minify"):
        case.record(StageRecord(stage, "done"))
    (case.path / "minify/best.py").write_text(PROGRAM)
    (case.path / "capture/program.py").write_text(PROGRAM.replace("sin", "cos"))
    reduced, captured = (form for form in candidates(case, results_of(case)) if form.program and form.whole)
    assert reduced.facts.failure_line == "AssertionError: expected size 2==2"
    assert captured.facts.failure_line == "AssertionError: expected size 6==6"
