"""Under `--check accuracy`, an exception that compiled calls lose is the failure: there is no result to compare."""

from pathlib import Path

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import SYMPTOM
from repro_kit.failure.compiled_calls import CompiledCall
from repro_kit.failure.failure import Difference, ExceptionLink, Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.options.stages import ObserveOptions
from repro_kit.runner.read_findings import Findings
from repro_kit.runner.supervised import Run
from repro_kit.trace import TraceSummary
from repro_kit.ui import SilentUi
from repro_kit.verdicts.symptoms import SymptomSearch, look_for

LOST = CompiledCall("check at a.py:3", lost=(ExceptionLink("AssertionError", "not positive", ()),))
WRONG = CompiledCall("step at a.py:9", compared=1, difference=Difference("value", "output 0", 1.0, 1.0, 1.0))


def seen(place: Path, *calls: CompiledCall) -> tuple[Case, SymptomSearch]:
    case = Case.create(place / "a.repro", Subject("script", ("a.py",), str(place), "python"), "2026-01-01")
    ended = Run(0, None, timed_out=False, seconds=1.0, peak_memory=0)
    options = ObserveOptions(check="accuracy")
    return case, look_for(case, options, SilentUi(), ended, Findings(compiled=calls), TraceSummary())


def test_a_lost_exception_is_the_failure_and_what_later_runs_measure(tmp_path: Path) -> None:
    case, found = seen(tmp_path, LOST)
    (failure,) = found.failures
    assert (failure.failure.kind, failure.source) == (Kind.VALIDATION, "measured")
    assert failure.signature.exceptions == ("AssertionError",)
    assert case.load(SYMPTOM).kind is Kind.VALIDATION


def test_a_wrong_result_comes_first(tmp_path: Path) -> None:
    case, found = seen(tmp_path, LOST, WRONG)
    assert found.failures[0].failure.kind is Kind.ACCURACY
    assert case.load(SYMPTOM).kind is Kind.ACCURACY


def test_an_assert_that_eager_raises_is_what_the_compiled_script_has_lost() -> None:
    link = (ExceptionLink("AssertionError", "", ()),)
    lost = signature_of(Failure(Kind.VALIDATION, exceptions=link))
    for kind, alike in ((Kind.RUNTIME_ERROR, True), (Kind.ACCURACY, True), (Kind.COMPILE_ERROR, False)):
        assert signature_of(Failure(kind, exceptions=link)).is_lost_by(lost) is alike
    other = Failure(Kind.ACCURACY, difference=Difference("value", "output 0", 1.0, 1.0, 1.0))
    assert not signature_of(other).is_lost_by(lost)
