"""What is said of the user's command is what the command did."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Environment, Observation, ObservedFailure
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.stages.bundle.further_runs import users_end


def end(tmp_path: Path, kind: Kind, *, source: str = "exception", code: bool = False, **run: Any) -> str:
    subject = Subject("script", ("train.py",), str(tmp_path), "python")
    case = Case.create(tmp_path / "a.repro", subject, "2030-01-01T00:00:00+00:00")
    frames = (Frame(str(tmp_path / "train.py"), 3, "<module>", ""),)
    types = {Kind.ACCURACY: "AssertionError"}
    link = ExceptionLink(types.get(kind, "torch._inductor.exc.InductorError"), "loss of SECRET differs\nmore", frames)
    failure = Failure(kind, exceptions=(link,))
    observed = ObservedFailure(failure, signature_of(failure), source=cast(Any, source))
    values: dict[str, Any] = {"exit_status": 1, "signal": None, "timed_out": False, "seconds": 60.0, **run}
    observation = Observation(("python", "train.py"), peak_memory=0, python=None, torch=None, **values)
    facts = Facts(observed.signature, failure, cast(Environment, None))
    results = SimpleNamespace(observation=observation, observed=observed, facts=facts)
    return users_end(case, cast(Any, results), lambda text: text.replace("SECRET", "X"), code=code)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (Kind.COMPILE_ERROR, {}, "ended with exit status 1: InductorError: loss of X differs"),
        (Kind.ACCURACY, {}, "ended with exit status 1: AssertionError"),
        (Kind.ACCURACY, {"code": True}, "ended with exit status 1: AssertionError: loss of X differs"),
        (Kind.ACCURACY, {"source": "measured", "exit_status": 0}, "ended with exit status 0"),
        (
            Kind.COMPILE_ERROR,
            {"source": "trace", "exit_status": 0},
            "ended with exit status 0; it caught InductorError: loss of X differs",
        ),
        (Kind.TIMEOUT, {"exit_status": None, "timed_out": True}, "was still running after 60 s"),
        (Kind.CRASH, {"exit_status": None, "signal": "SIGSEGV"}, "was killed by SIGSEGV"),
    ],
)
def test_the_end_of_the_command(tmp_path: Path, kind: Kind, options: dict[str, Any], words: str) -> None:
    assert end(tmp_path, kind, **options) == words
