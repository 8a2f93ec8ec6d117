"""What a story says of the failure: the words of the run of `repro.py`."""

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.run_output import read_run
from repro_kit.case.stage_results import Environment
from repro_kit.model.failure.failure import ExceptionLink, Failure, Kind
from repro_kit.model.failure.signature import Signature
from repro_kit.session.repro_run import Check, RunOfRepro
from repro_kit.stages.bundle.describe import _error

RAISED = 'Traceback (most recent call last):\n  File "repro.py", line 1, in <module>\nTypeError: no truth of s0 > 1\n'
WRONG = "FAIL accuracy: Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n"


@pytest.mark.parametrize(
    ("signature", "output", "words"),
    [
        (Signature(Kind.COMPILE_ERROR, ("TypeError",)), RAISED, "TypeError: no truth of s0 > 1"),
        (Signature(Kind.ACCURACY), WRONG, "Tensor-likes are not close!; Mismatched elements: 1 / 4 (25.0%)"),
        (Signature(Kind.TIMEOUT), "FAIL timeout: no end after 20 s\n", "no end: it hangs, or compiles for ever"),
    ],
)
def test_the_words_are_those_of_the_run(signature, output, words):
    captured = Failure(signature.kind, exceptions=(ExceptionLink("TypeError", "no truth of s77 > s78"),))
    facts = Facts(signature, captured, Environment("3.11", "python", "Linux", "2.13.0"))
    run = RunOfRepro(read_run(1, output, "exit status 1"), output, 1.0, same=True)
    assert _error(facts, Check((run,), run)) == words
    assert _error(facts, None) == facts.expected != words or signature.kind is Kind.TIMEOUT
