"""What a run of `repro.py` printed, read."""

from repro_kit.bundle.repro.check_program import failure_in, of_repro
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, Strength, signature_of

SAYS = "FAIL: the failure above is the expected one\n"


def test_a_script_that_ends_with_a_status_alone_fails_like_its_own_check() -> None:
    failure = failure_in(f"tap 3 is missing\n{SAYS}")
    assert failure is not None and failure.exit_status == 1
    assert Signature(Kind.ACCURACY).matches(signature_of(failure), Strength.REBASED)
    assert not Signature(Kind.ACCURACY, ("ValueError",), "off").matches(signature_of(failure), Strength.REBASED)


def test_a_traceback_is_another_failure() -> None:
    failure = failure_in(f"Traceback (most recent call last):\nKeyError: 3\n{SAYS}")
    assert failure is not None
    assert not Signature(Kind.ACCURACY).matches(signature_of(failure), Strength.REBASED)


def test_the_verdict_is_no_part_of_a_message_of_several_lines() -> None:
    trace = 'Traceback (most recent call last):\n  File "repro.py", line 3, in <module>\nAssertionError: not close!\n'
    failure = failure_in(f"{trace}\nExpected 1.0 but got 0.0.\n{SAYS}")
    assert failure is not None
    assert failure.exceptions[-1].message.split() == ["not", "close!", "Expected", "1.0", "but", "got", "0.0."]


def test_output_without_a_verdict_is_none() -> None:
    assert failure_in("tap 3 is missing\n") is None


def test_a_verdict_that_repeats_what_repro_py_printed_is_left_out():
    trace = "Traceback\nAssertionError: Tensor-likes are not close!\n\nMismatched elements: 1 / 1\n"
    assert of_repro(f"{trace}\n{SAYS}") == f"{trace}\n"
    assert (
        of_repro(f"{trace}\nFAIL accuracy: Tensor-likes are not close!\n\nMismatched elements: 1 / 1\n") == f"{trace}\n"
    )
    for says in (
        "FAIL accuracy: Scalars are not close!\n",
        "FAIL crash: SIGABRT\n",
        "FAIL timeout: no end after 30 s\n",
    ):
        assert of_repro(f"{trace}{says}") == f"{trace}{says}", "only the verdict says it"
