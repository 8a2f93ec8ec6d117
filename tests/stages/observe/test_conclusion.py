"""The last words on a run in which nothing failed."""

import shlex

import pytest

from repro_kit.case.stage_results import ObservedFailure
from repro_kit.cli.stages import collect
from repro_kit.failure.failure import ExceptionLink, Failure, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.stages.observe.conclusion import seen_so_far, sentences, why_nothing
from repro_kit.verdicts.blame import Blame, as_wrong_result


def test_what_was_compiled_is_said_with_one_command_to_paste() -> None:
    first, second = sentences("exit status 0 after 5 s", 3, "", ("my train.py", "--epochs", "1"), "").splitlines()
    assert first == "Nothing failed: exit status 0 after 5 s, and 3 graphs were compiled."
    words = shlex.split(second.partition(": ")[2])
    assert words[:2] == ["repro-kit", "collect"]
    assert collect.split(words[2:]) == (["--check", "accuracy"], "script", ["my train.py", "--epochs", "1"])
    assert sentences("", 1, "", (), "").count("1 graph was compiled") == 1


def test_a_run_that_compiled_nothing_is_not_asked_to_compare_anything() -> None:
    (only,) = sentences("exit status 0 after 5 s", 0, "", ("train.py",), "no compiled function was called").splitlines()
    assert only.endswith("Nothing was compiled: no compiled function was called.")


def test_what_was_measured_takes_the_place_of_the_command() -> None:
    text = sentences("exit status 0 after 5 s", 2, "recompiles>3 was not seen: 1 recompile", ("train.py",), "")
    assert text.splitlines()[1:] == ["recompiles>3 was not seen: 1 recompile."]


@pytest.mark.parametrize(
    ("env", "saw_torch", "words"),
    [
        ({"TORCHDYNAMO_DISABLE": "1"}, True, "TORCHDYNAMO_DISABLE=1 switches torch.compile off"),
        ({"TORCH_COMPILE_DISABLE": "1"}, True, "TORCH_COMPILE_DISABLE=1 switches torch.compile off"),
        ({"TORCH_COMPILE_DISABLE": "0"}, True, "no compiled function was called"),
        ({}, False, "torch was not imported"),
    ],
)
def test_why_nothing_was_compiled(env: dict[str, str], saw_torch: bool, words: str) -> None:
    assert why_nothing(env, saw_torch=saw_torch).startswith(words)


@pytest.mark.parametrize(
    ("raised", "eager", "settled", "words"),
    [
        (
            ExceptionLink("AssertionError", 'wrong "result": tensor(0.0010)\n\nand more'),
            None,
            False,
            "the script ends with \"AssertionError: wrong 'result': tensor(0.0010)\" (not yet known: whether it does so"
            " without torch.compile)",
        ),
        (
            ExceptionLink("RuntimeError", "3 records lost"),
            Status.PASS,
            False,
            'the script ends with "RuntimeError: 3 records lost" (in one run without torch.compile it passes)',
        ),
        (
            ExceptionLink("RuntimeError", "3 records lost"),
            Status.PASS,
            True,
            "accuracy: RuntimeError with torch.compile, not in eager: 3 records lost",
        ),
        (
            None,
            None,
            False,
            "the script ends with exit status 3 (not yet known: whether it does so without torch.compile)",
        ),
    ],
)
def test_of_a_scripts_own_exception_no_more_is_said_than_was_seen(
    raised: ExceptionLink | None, eager: Status | None, settled: bool, words: str
) -> None:
    failure = Failure(Kind.RUNTIME_ERROR, exceptions=(raised,) if raised else (), exit_status=None if raised else 3)
    chosen = as_wrong_result(ObservedFailure(failure, signature_of(failure)))
    assert seen_so_far(chosen, Blame(eager, (chosen,), settled=settled)) == words
