"""How the work ends with a rounding verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION, ROUNDING, Observation, ObservedFailure
from repro_kit.errors import Exit, Stop
from repro_kit.failure.compiled_calls import CompiledCall
from repro_kit.failure.differences import ResultErrors, Rounding, SettingTried
from repro_kit.failure.exception_origin import Nature
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Frame, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Strength, signature_of
from repro_kit.probe.repro_probe.protocol.failure_data import RANDOM_NUMBERS, UNINITIALISED, WRITE_ORDER
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.read_findings import Findings
from repro_kit.runner.supervised import Run
from repro_kit.subject.script_run import SubjectRun
from repro_kit.ui import SilentUi
from repro_kit.verdicts import blame, by_rounding
from repro_kit.verdicts.by_rounding import Reruns, conclude, explained_by_rounding, is_as_large, overruled

WRONG = Failure(Kind.ACCURACY, text="not close")
VERDICT = Rounding(
    errors=(ResultErrors("output 0", "float16", 64, 0.1, True, gap=3e-3, eager=2e-3, compiled=1e-3),),
    evidence=("1 compiled call is as close to double precision as eager",),
    growth=12.0,
    tried=(SettingTried("inductor.emulate_precision_casts=True", True, 0.0),),
)

ROUNDED = CompiledCall("step at a.py:1", calls=1, compared=1, errors=VERDICT.errors)


def case_of(tmp_path: Path, *failures: ObservedFailure) -> Case:
    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), "python"), "2026-01-01")
    case.store(OBSERVATION, Observation(("a.py",), 1, None, False, 1.0, 0, "python", "2.13.0", failures=failures))
    if failures:
        case.update(signature=failures[0].signature)
    return case


def failing(tmp_path: Path) -> Case:
    return case_of(tmp_path, ObservedFailure(WRONG, signature_of(WRONG)))


def test_of_many_results_those_that_differ_most_are_shown() -> None:
    many = tuple(ResultErrors(f"grad of w{n}", "float32", 9, 0.1, True, gap=float(n % 10)) for n in range(30))
    _, *rows, last = Rounding(errors=many).table
    assert [row[0] for row in rows] == [f"grad of w{n}" for n in (7, 8, 9, 17, 18, 19, 28, 29)]
    assert {row[4] for row in rows} == {"7", "8", "9"} and last[0] == "… and 22 more"


def test_a_verdict_ends_the_work_with_its_table(tmp_path: Path) -> None:
    case = failing(tmp_path)
    case.store(ROUNDING, VERDICT)
    with pytest.raises(Stop) as stopped:
        conclude(case, SilentUi(), "rounding")
    assert stopped.value.exit_code is Exit.ROUNDING
    lines = stopped.value.sentence.splitlines()
    assert lines[1].split("  ")[0] == "result" and lines[2].split() == [
        *("output", "0", "float16", "0.002", "0.001", "0.003", "unknown")
    ]
    assert "- one rounding error grows 12-fold on its way to the result" in lines
    assert any("gives eager's results bit for bit" in line for line in lines)


def test_only_calls_that_differ_by_rounding_alone_are_overruled() -> None:
    assert overruled([ROUNDED]).startswith(
        "1 compiled call is about as close to double precision as eager is, or gets when"
    )
    assert overruled([ROUNDED, replace(ROUNDED, rounding=False)]) == ""
    assert overruled([CompiledCall("step at a.py:1", compared=1)]) == ""


def test_where_it_counts_as_a_failure_the_signature_says_so(tmp_path: Path) -> None:
    case = failing(tmp_path)
    case.store(ROUNDING, VERDICT)
    conclude(case, SilentUi(), "failure")
    signature = case.file.signature
    assert signature is not None and signature.rounding
    by_rounding = signature_of(Failure(Kind.ACCURACY, rounding=True))
    assert signature.matches(by_rounding, Strength.REBASED)
    assert not signature_of(WRONG).matches(by_rounding, Strength.REBASED), "a bug may not slip to rounding"


def test_without_a_failure_or_a_verdict_the_work_goes_on(tmp_path: Path) -> None:
    conclude(failing(tmp_path / "one"), SilentUi(), "rounding")
    healthy = case_of(tmp_path / "two")
    healthy.store(ROUNDING, VERDICT)  # what --check accuracy saw of calls that are right
    conclude(healthy, SilentUi(), "rounding")
    assert healthy.file.signature is None


def wrong_by(kind: str, max_abs: float, max_rel: float) -> ObservedFailure:
    difference = Difference(kind, "output 0", max_abs=max_abs, max_rel=max_rel)
    failure = Failure(Kind.ACCURACY, difference=difference)
    return ObservedFailure(failure, signature_of(failure))


@pytest.mark.parametrize(
    ("compiled", "disturbed", "answer"),
    [
        (wrong_by("value", 1e-3, 1e-3), wrong_by("value", 1e-4, 1e-4), True),
        (wrong_by("value", 1.0, 1.0), wrong_by("value", 1e-4, 1e-4), False),
        (wrong_by("value", math.inf, math.inf), wrong_by("value", 6e7, 1.7), True),  # a singular matrix's condition
        (wrong_by("value", math.inf, math.inf), wrong_by("value", 1e-4, 1e-4), False),
        (wrong_by("nan", math.inf, math.inf), wrong_by("value", 6e7, 1.7), False),
        (wrong_by("nan", 0, 0), wrong_by("nan", 0, 0), True),  # eager's result is infinite itself
        (wrong_by("nan", 0, 0), wrong_by("value", math.inf, 1.0), True),
    ],
)
def test_the_script_differs_about_as_much_as_rounding_makes_it(
    compiled: ObservedFailure, disturbed: ObservedFailure, answer: bool
) -> None:
    assert is_as_large(compiled, disturbed, all_compared=True) is answer


CASTS = "inductor.emulate_precision_casts"


def only_passing_with(settings: list[str]) -> Callable[..., Run]:
    """Stands in for a run of the script: its check passes with these settings alone, and in eager."""

    def ran(case: Case, run: SubjectRun, override: Override) -> Run:
        passes = "nudge" in override or list(override.get("config", ())) == settings
        run.directory.mkdir(parents=True, exist_ok=True)
        return Run(0 if passes else 1, None, timed_out=False, seconds=1.0, peak_memory=0)

    return ran


@pytest.mark.parametrize("settings", [[CASTS], []])
def test_a_script_that_passes_with_eagers_casts_is_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str]
) -> None:
    """As one whose eager result overflows, where no nudge of the results makes its check fail in eager."""
    monkeypatch.setattr(by_rounding, "run_overridden", only_passing_with(settings))
    case = failing(tmp_path)
    runs = Reruns(case, SilentUi(), timeout=60, limit=60, copy_of=None)
    explained = explained_by_rounding(runs, case.load(OBSERVATION).failures[0], [ROUNDED])
    assert (explained is not None) is bool(settings)
    if explained is not None:
        assert explained.restored_by == f"{CASTS}=True"
        assert "narrow dtype" in explained.sentence


@pytest.mark.parametrize(
    ("told", "nudged", "explained"),
    [(3e-3, 2e-3, True), (3e-3, 1e-3, False), (9e-3, 2e-3, False), (3e-3, None, False)],
    ids=["as large", "little disturbed", "another difference", "not disturbed"],
)
def test_a_difference_of_the_calls_that_disturbed_rounding_makes_is_rounding_whatever_few_runs_of_the_script_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: float, nudged: float | None, explained: bool
) -> None:
    monkeypatch.setattr(by_rounding, "run_overridden", only_passing_with([]))
    own = Failure(Kind.ACCURACY, difference=Difference("value", "", told, told, 0.1))
    observed = ObservedFailure(own, signature_of(own))
    row = replace(VERDICT.errors[0], nudged=nudged)
    runs = Reruns(case_of(tmp_path, observed), SilentUi(), timeout=60, limit=60, copy_of=None)
    assert (explained_by_rounding(runs, observed, [replace(ROUNDED, errors=(row,))]) is not None) is explained


def test_what_the_script_raises_by_itself_may_be_rounding_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as `sys.exit("other logits")`, which does not say that values were compared."""
    own = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("SystemExit", "other logits"),))
    case = case_of(tmp_path, ObservedFailure(own, signature_of(own), nature=Nature.OPEN))
    monkeypatch.setattr(by_rounding, "run_overridden", only_passing_with([CASTS]))
    monkeypatch.setattr(blame, "run_overridden", only_passing_with([]))
    monkeypatch.setattr(blame, "read_findings", lambda directory: SimpleNamespace(compiled=(ROUNDED,)))
    observed = replace(case.load(OBSERVATION), eager=Status.PASS)
    found = blame.judge_by_reruns(case, 60, SilentUi(), observed)
    assert found.rounding is not None and found.rounding.restored_by == f"{CASTS}=True"


@pytest.mark.parametrize("sensitive", [True, False])
def test_an_exit_that_disturbed_rounding_brings_about_in_eager_is_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sensitive: bool
) -> None:
    """Such as one by a comparison of printed results, while each compiled call agrees by the usual tolerance."""

    def ran(case: Case, run: SubjectRun, override: Override) -> Run:
        run.directory.mkdir(parents=True, exist_ok=True)
        compiles = not override.get("eager_graphs") and not override.get("eager")
        fails = compiles or (override.get("nudge", 0) != 0 and sensitive)
        return Run(int(fails), None, timed_out=False, seconds=1.0, peak_memory=0)

    own = Failure(Kind.RUNTIME_ERROR, exit_status=1)
    case = case_of(tmp_path, ObservedFailure(own, signature_of(own), source="exit", nature=Nature.OPEN))
    for module in (by_rounding, blame):
        monkeypatch.setattr(module, "run_overridden", ran)
    agree = CompiledCall("step at a.py:1", calls=1, compared=1)
    monkeypatch.setattr(blame, "read_findings", lambda directory: Findings(compiled=(agree,)))
    monkeypatch.setattr(blame, "run_eager", lambda *_: SimpleNamespace(passes=True))
    observed = replace(case.load(OBSERVATION), eager=Status.PASS)
    found = blame.judge_by_reruns(case, 60, SilentUi(), observed)
    assert (found.rounding is not None) is sensitive


class _Runs:
    """Stands in for runs of a script whose own check fails in some runs, counted from 1, whatever it runs with."""

    def __init__(self, failing: set[int]) -> None:
        self.failing, self.count = failing, 0

    def ended(self, case: Case, run: SubjectRun, override: Override) -> Run:
        self.count += 1
        run.directory.mkdir(parents=True, exist_ok=True)
        return Run(int(self.count in self.failing), None, timed_out=False, seconds=1.0, peak_memory=0)


@pytest.mark.parametrize(
    ("failing_runs", "explained"),
    [({1, 2}, True), ({2, 4}, False), ({1, 4, 7}, False), ({1, 2, 3}, False)],
    ids=["when nudged", "every other run", "every third run", "whatever the nudge"],
)
def test_a_script_that_fails_now_and_then_is_not_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_runs: set[int], explained: bool
) -> None:
    own = Failure(
        Kind.ACCURACY, exceptions=(ExceptionLink("AssertionError", "off", (Frame("a.py", 3, "<module>", ""),)),)
    )
    observed = ObservedFailure(own, signature_of(own))
    case, ran = case_of(tmp_path, observed), _Runs(failing_runs)
    monkeypatch.setattr(by_rounding, "run_overridden", ran.ended)
    monkeypatch.setattr(
        by_rounding.observed_failures, "found_in", lambda _, ended, *rest: [] if ended.ok else [observed]
    )
    runs = Reruns(case, SilentUi(), timeout=60, limit=60, copy_of=None)
    agree = CompiledCall("step at a.py:1", calls=1, compared=1)
    assert (explained_by_rounding(runs, observed, [agree]) is not None) is explained


def test_a_check_before_it_that_only_nudges_fail_hides_no_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an index among equal values: of the functions, only those are nudged that differ when compiled."""

    def raised(line: int) -> ObservedFailure:
        frame = Frame("a.py", line, "<module>", "")
        failure = Failure(Kind.ACCURACY, exceptions=(ExceptionLink("AssertionError", "off", (frame,)),))
        return ObservedFailure(failure, signature_of(failure))

    def ran(case: Case, run: SubjectRun, override: Override) -> Run:
        run.directory.mkdir(parents=True, exist_ok=True)
        line = 9 if override.get("nudged") == [ROUNDED.name] else 3
        return Run(line, None, timed_out=False, seconds=1.0, peak_memory=0)

    case = case_of(tmp_path, raised(9))
    monkeypatch.setattr(by_rounding, "run_overridden", ran)
    monkeypatch.setattr(by_rounding.observed_failures, "found_in", lambda _, ended, *rest: [raised(ended.exit_status)])
    runs = Reruns(case, SilentUi(), timeout=60, limit=60, copy_of=None)
    calls = [CompiledCall("choose at a.py:1", calls=1, compared=1), ROUNDED]
    assert explained_by_rounding(runs, raised(9), calls) is not None


@pytest.mark.parametrize(
    "call",
    [
        CompiledCall("f at a.py:1", 1, compared=1, note="eager differs from itself at output 0"),
        CompiledCall("f at a.py:1", 1, compared=1, difference=Difference("value", "output 0"), doubts=(WRITE_ORDER,)),
        replace(ROUNDED, doubts=(UNINITIALISED,)),
    ],
    ids=["a clock", "duplicate indices", "memory that is not written"],
)
def test_nobody_is_blamed_where_the_results_that_differ_are_not_defined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: CompiledCall
) -> None:
    case = case_of(tmp_path, ObservedFailure(WRONG, signature_of(WRONG)))
    monkeypatch.setattr(blame, "run_overridden", only_passing_with([]))
    monkeypatch.setattr(blame, "read_findings", lambda directory: SimpleNamespace(compiled=(call,)))
    found = blame.judge_by_reruns(case, 60, SilentUi(), replace(case.load(OBSERVATION), eager=Status.PASS))
    assert "where its results are not defined" in found.nobody and found.rounding is None
    wrong = replace(call, difference=Difference("value", "output 1"), doubts=(RANDOM_NUMBERS,), note="")
    monkeypatch.setattr(blame, "read_findings", lambda directory: SimpleNamespace(compiled=(call, wrong)))
    assert not blame.judge_by_reruns(case, 60, SilentUi(), replace(case.load(OBSERVATION), eager=Status.PASS)).nobody
