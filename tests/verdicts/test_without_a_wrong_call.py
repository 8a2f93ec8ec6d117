"""Nobody is blamed for a check that no compiled call explains."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION, Observation, ObservedFailure
from repro_kit.failure.compiled_calls import CompiledCall
from repro_kit.failure.differences import Rounding
from repro_kit.failure.exception_origin import Nature
from repro_kit.failure.failure import ExceptionLink, Failure, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.read_findings import Findings
from repro_kit.runner.supervised import Run
from repro_kit.subject.script_run import SubjectRun
from repro_kit.ui import SilentUi
from repro_kit.verdicts import blame, by_rounding


def judged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nature: Nature,
    call: CompiledCall,
    state: CompiledCall,
    written: tuple[str, ...] = (),
) -> str:
    """Why nobody is blamed for a check that fails in compiled runs alone, by its calls' results and their state."""

    def ran(case: Case, run: SubjectRun, override: Override) -> Run:
        run.directory.mkdir(parents=True, exist_ok=True)
        fails = not override.get("eager_graphs") and "nudge" not in override
        return Run(int(fails), None, timed_out=False, seconds=1.0, peak_memory=0)

    own = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("AssertionError", "it differs"),))
    chosen = ObservedFailure(own, signature_of(own), nature=nature)
    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), "python"), "2026-01-01")
    case.store(OBSERVATION, Observation(("a.py",), 1, None, False, 1.0, 0, "python", "2.13.0", failures=(chosen,)))
    case.update(signature=chosen.signature)
    for module in (by_rounding, blame):
        monkeypatch.setattr(module, "run_overridden", ran)

    def read(directory: Path) -> Findings:
        hidden = written if directory.parent.name == "hidden-writes" else ()
        return Findings(compiled=(state if "state" in str(directory) else call,), hidden_writes=hidden)

    monkeypatch.setattr(blame, "read_findings", read)
    monkeypatch.setattr(blame, "run_eager", lambda *_: SimpleNamespace(passes=True))
    monkeypatch.setattr(blame.observed_failures, "found_in", lambda _, ended, *rest: [] if ended.ok else [chosen])
    return blame.judge_by_reruns(case, 60, SilentUi(), replace(case.load(OBSERVATION), eager=Status.PASS)).nobody


AGREES = CompiledCall("step at a.py:1", calls=1, compared=1)


@pytest.mark.parametrize("watched", ["a profiler", ""])
def test_a_check_of_the_operators_that_a_profiler_sees_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: str
) -> None:
    """It passes with all graphs in eager, which run eager's operators, and its condition has a tensor in it."""
    nobody = judged(tmp_path, monkeypatch, Nature.COMPARISON, replace(AGREES, watched=watched), AGREES)
    assert ("other operators than eager, and saves other tensors, which a profiler sees" in nobody) is bool(watched)


@pytest.mark.parametrize("lost", [(), ((1, {"seen": [1, 0]}, {"seen": [0]}),)], ids=("same state", "lost state"))
def test_a_check_of_the_words_of_an_exception_that_both_raise_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: tuple[tuple[int, dict[str, object], dict[str, object]], ...]
) -> None:
    raises = replace(AGREES, both="RuntimeError")
    nobody = judged(tmp_path, monkeypatch, Nature.OPEN, raises, replace(AGREES, states=lost))
    assert ("(where eager raises RuntimeError, it raises, too)" in nobody) is not bool(lost)


@pytest.mark.parametrize("explained", [Rounding(random=True), None], ids=("other numbers", "no reason"))
def test_random_numbers_are_asked_about_whatever_the_check_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explained: Rounding | None
) -> None:
    monkeypatch.setattr(by_rounding, "explained_by_random", lambda *_: explained)
    nobody = judged(tmp_path, monkeypatch, Nature.OPEN, replace(AGREES, random=True), AGREES)
    assert ("in eager with the same random numbers, in its results" in nobody) is (explained is None)


@pytest.mark.parametrize("written", [("float32[2]",), ()], ids=("a hidden write", "none"))
def test_a_write_to_what_is_saved_that_autograd_does_not_see_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: tuple[str, ...]
) -> None:
    """Each call agrees, since the write comes between a forward and its backward; the script needs a graph to fail."""
    nobody = judged(tmp_path, monkeypatch, Nature.COMPARISON, AGREES, AGREES, written)
    assert ("from which that backward may be computed (float32[2])" in nobody) is bool(written)
