"""An exception of the script's own counts only where more runs, with the compiler and without, confirm it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Observation, ObservedFailure
from repro_kit.failure.compiled_calls import CompiledCall
from repro_kit.failure.exception_origin import Nature
from repro_kit.failure.failure import ExceptionLink, Failure, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.read_findings import Findings
from repro_kit.runner.supervised import Run
from repro_kit.subject.script_run import SubjectRun
from repro_kit.ui import SilentUi
from repro_kit.verdicts import blame

OWN = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("ValueError", "off"),))
CHOSEN = ObservedFailure(OWN, signature_of(OWN), nature=Nature.COMPARISON)
#: Nothing tells of this call whether it differs from eager.
UNSEEN = CompiledCall("step at a.py:1", calls=1, problem="its arguments cannot be copied")


@pytest.mark.parametrize(
    ("odd", "doubt"),
    [
        ("", ""),
        ("again-1", "the script does not pass every time without torch.compile"),
        ("again-2", "the script does not fail in this way every time with torch.compile"),
        ("again-3", "the script does not fail in this way every time with torch.compile"),
    ],
)
def test_a_run_that_ends_otherwise_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str, doubt: str
) -> None:
    def compiled(case: Case, run: SubjectRun, override: Override) -> Run:
        run.directory.mkdir(parents=True, exist_ok=True)
        return Run(int(run.directory.name != odd), None, timed_out=False, seconds=1.0, peak_memory=0)

    def in_eager(case: Case, directory: Path, *_: object) -> SimpleNamespace:
        return SimpleNamespace(passes=directory.name != odd, doubt="")

    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), "python"), "2026-01-01")
    told = ("python", "2.13.0")
    observed = Observation(("a.py",), 1, None, False, 1.0, 0, *told, failures=(CHOSEN,), eager=Status.PASS)
    monkeypatch.setattr(blame, "run_overridden", compiled)
    monkeypatch.setattr(blame, "run_eager", in_eager)
    monkeypatch.setattr(blame, "read_findings", lambda directory: Findings(compiled=(UNSEEN,)))
    monkeypatch.setattr(blame.observed_failures, "found_in", lambda _, ended, *rest: [] if ended.ok else [CHOSEN])
    found = blame.judge_by_reruns(case, 60, SilentUi(), observed)
    assert found.eager is Status.PASS
    assert (doubt in found.nobody, bool(found.nobody)) == (True, bool(doubt))
    assert (found.failures == (CHOSEN,)) is bool(doubt), "a wrong result only where nobody is in doubt"
