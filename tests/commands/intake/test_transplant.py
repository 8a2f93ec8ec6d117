"""A program of a device that is lacking here: a twin on the CPU where the failure is the same, else GPU only."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import CAPTURE, Capture
from repro_kit.commands.intake.moved_to_cpu import Recorded, failing_on_cpu, lacking, recorded_in_case
from repro_kit.errors import Exit, Stop
from repro_kit.failure.failure import Difference, ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.graph import Program, parse, render
from repro_kit.runner.program_oracle import ProgramOracle

TEXT = """# repro-kit program 1
import pathlib

import torch
from torch import device, inf, nan

RECIPE = {'check': False}


def graph(x):
    y = torch.relu(x)
    return (y,)


def calls():
    x = torch.randn(4, 16, device='cuda:0')
    return [(x,)]
"""
ON_CUDA = Failure(Kind.COMPILE_ERROR, exceptions=(ExceptionLink("AssertionError", "no kernel for relu on cuda:0"),))
ON_CPU = replace(ON_CUDA, exceptions=(ExceptionLink("AssertionError", "no kernel for relu on cpu"),))
OTHER = replace(ON_CUDA, exceptions=(ExceptionLink("AssertionError", "too many registers"),))
FAILS, OTHERWISE = Verdict(Status.FAIL, ON_CPU), Verdict(Status.FAIL, OTHER)


class Oracle:
    """Answers by the text of the program; `asked` keeps the texts."""

    def __init__(self, default: Verdict, **by_size: Verdict) -> None:
        self.default, self.by_size = default, by_size
        self.asked: list[str] = []

    def check(self, texts: Sequence[str], inputs: Path | None, *, timeout: float) -> Iterator[Verdict]:
        for text in texts:
            self.asked.append(text)
            words = [verdict for name, verdict in self.by_size.items() if name.replace("_", ", ")[1:] in text]
            yield words[0] if words else self.default


def moved(oracle: Oracle, recorded: Recorded) -> tuple[int, Program, Verdict, object]:
    return failing_on_cpu([parse(TEXT)], ("cuda",), recorded, cast(ProgramOracle, oracle), Path(), 1.0)


def test_the_same_failure_on_the_cpu_is_a_twin() -> None:
    oracle = Oracle(FAILS)
    number, program, verdict, moved_to_cpu = moved(oracle, Recorded(signature_of(ON_CUDA)))
    assert (number, verdict) == (0, FAILS)
    assert "torch.randn(4, 16)" in render(program) and "cuda" not in render(program)
    assert getattr(moved_to_cpu, "recorded", None) == signature_of(ON_CUDA)
    assert len(oracle.asked) == 1


def test_an_operator_that_torch_renamed_since_is_looked_for_on_the_cpu_too() -> None:
    old, new = "prims._low_memory_max_pool2d_with_offsets", "prims._low_memory_max_pool_with_offsets"
    message = f"'_OpNamespace' 'prims' object has no attribute '{old.partition('.')[2]}'"
    lost = Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink("AttributeError", message),))
    text = TEXT.replace("torch.relu(x)", f"torch.ops.{old}.default(x, [2, 2], [2, 2], [0, 0], [1, 1], False)")

    class Newer(Oracle):
        def check(self, texts: Sequence[str], inputs: Path | None, *, timeout: float) -> Iterator[Verdict]:
            for text in texts:
                yield Verdict(Status.INVALID, lost) if old in text else self.default

    oracle = Newer(FAILS)
    found = failing_on_cpu([parse(text)], ("cuda",), Recorded(), cast(ProgramOracle, oracle), Path(), 1.0)
    assert found[2] == FAILS and new in render(found[1])
    oracle.default = Verdict(Status.INVALID, lost)
    with pytest.raises(Stop, match="neither it nor this torch has") as stop:
        failing_on_cpu([parse(text)], ("cuda",), Recorded(), cast(ProgramOracle, oracle), Path(), 1.0)
    assert stop.value.exit_code is Exit.CANNOT_RUN


@pytest.mark.parametrize("size", ["s16_64", "s2_8"])
def test_a_failure_that_needs_other_sizes_is_found(size: str) -> None:
    oracle = Oracle(Verdict(Status.PASS), **{size: FAILS})
    *_, moved_to_cpu = moved(oracle, Recorded(signature_of(ON_CUDA)))
    assert getattr(moved_to_cpu, "sizes", "").startswith("every size times")
    assert len(oracle.asked) <= 3


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict(Status.PASS), "on the CPU it passes, and 8 programs with larger and smaller sizes"),
        (OTHERWISE, "on the CPU it fails otherwise (.*too many registers)"),
        (Verdict(Status.INVALID, OTHER), "it does not run, not even without torch.compile"),
        (Verdict(Status.INVALID, Failure(Kind.TIMEOUT)), "it does not end in time, not even without torch.compile"),
        (Verdict(Status.FLAKY), "only now and then"),
    ],
)
def test_anything_else_is_gpu_only(verdict: Verdict, words: str) -> None:
    with pytest.raises(Stop, match=rf"^GPU only: .*recorded on CUDA.*{words}.*There it failed: .*no kernel") as stop:
        moved(Oracle(verdict), Recorded(signature_of(ON_CUDA)))
    assert stop.value.exit_code is Exit.CANNOT_RUN
    says = "a machine with CUDA may run it" if verdict.status is Status.INVALID else "run the same command on a machine"
    assert says in stop.value.sentence


def test_a_program_that_cannot_be_run_shows_nothing() -> None:
    with pytest.raises(Stop, match="could not be run on the CPU: killed") as stop:
        moved(Oracle(Verdict(Status.CANNOT_TELL, note="killed")), Recorded(signature_of(ON_CUDA)))
    assert stop.value.exit_code is Exit.FAILED


def test_of_an_unknown_failure_only_the_recorded_sizes_are_tried_and_nothing_is_claimed() -> None:
    *_, moved_to_cpu = moved(Oracle(OTHERWISE), Recorded())
    assert getattr(moved_to_cpu, "recorded", 1) is None
    oracle = Oracle(Verdict(Status.PASS))
    with pytest.raises(Stop, match=r"^GPU only: .* on the CPU it passes\. The record does not say whether"):
        moved(oracle, Recorded())
    assert len(oracle.asked) == 1


def test_of_a_wrong_result_the_results_are_compared() -> None:
    wrong = Failure(Kind.ACCURACY, difference=Difference("value", "output 0", max_rel=0.5))
    oracle = Oracle(Verdict(Status.FAIL, wrong))
    _, program, *_ = moved(oracle, Recorded(signature_of(wrong)))
    assert program.recipe.check


def test_a_minifier_s_wrong_result_is_no_other_failure() -> None:
    with pytest.raises(Stop, match=r"^GPU only: .* it fails otherwise .*There its results were wrong, says the record"):
        moved(Oracle(OTHERWISE), Recorded(is_wrong_result=True))
    wrong = Verdict(Status.FAIL, Failure(Kind.ACCURACY, difference=Difference("value", "output 0", max_rel=0.5)))
    assert moved(Oracle(wrong), Recorded(is_wrong_result=True))[2] == wrong


def test_a_backend_that_is_not_there_is_no_failure() -> None:
    unknown = Failure(Kind.DYNAMO_ERROR, exceptions=(ExceptionLink("torch._dynamo.exc.InvalidBackend", "'mine'"),))
    with pytest.raises(Stop, match=r"a backend that is not registered here \('mine'\)") as stop:
        moved(Oracle(Verdict(Status.FAIL, unknown)), Recorded())
    assert stop.value.exit_code is Exit.CANNOT_RUN


@pytest.mark.torch
def test_stored_values_name_their_device_too(tmp_path: Path) -> None:
    import torch

    torch.save(torch.ones(2), tmp_path / "values_0.pt")
    program = parse(TEXT.replace("torch.randn(4, 16, device='cuda:0')", 'load("values_0.pt")'))
    assert lacking([program], tmp_path, None) == ()
    assert lacking([parse(TEXT)], tmp_path, None) == ("cuda",)
    assert lacking([parse(TEXT)], tmp_path, "cuda") == ()


def test_the_case_around_a_program_says_how_it_failed(tmp_path: Path) -> None:
    case = Case.create(tmp_path / "x.repro", Subject("script", ("x.py",), "/", "python"), "2030-01-01T00:00:00+00:00")
    assert recorded_in_case(case.path / "capture" / "program.py") == Recorded()
    case.store(CAPTURE, Capture("program", signature=signature_of(ON_CUDA)))
    assert recorded_in_case(case.path / "capture" / "program.py") == Recorded(signature_of(ON_CUDA))
    assert recorded_in_case(tmp_path / "program.py") == Recorded()
