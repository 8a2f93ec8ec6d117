"""How events and result files spell an answer."""

import pytest

from repro_kit.failure.signature import RunOutcome
from repro_kit.reduce.search import Answer


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (Answer(RunOutcome.FAILS_ALIKE), "same"),
        (Answer(RunOutcome.FAILS_OTHERWISE), "other"),
        (Answer(RunOutcome.FAILS_OTHERWISE, failure={"kind": "crash"}), "equivalent"),
    ],
)
def test_the_same_failure_in_another_form_has_a_word_of_its_own(answer: Answer, word: str) -> None:
    assert answer.word == word
