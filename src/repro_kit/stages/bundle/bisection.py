"""The result of a bisection of the case, for the bundle."""

from __future__ import annotations

from repro_kit.bisect.next_build import SearchEnding, SearchOutcome, next_step
from repro_kit.bisect.store import ANSWER, DIRECTORY, read_state
from repro_kit.case.case import Case
from repro_kit.files import read_text
from repro_kit.model.failure.signature import Strength


def bisected(case: Case) -> str:
    """The result of a bisection of `case`, as Markdown.

    "" if there was no bisection, if it found nothing, or if it was about another failure than the case is now.
    """
    directory = case.path / DIRECTORY
    state = read_state(directory)
    expected = case.file.signature
    if state is None or state.signature is None or expected is None:
        return ""
    if not expected.matches(state.signature, Strength.CROSS_VERSION):
        return ""
    outcome = next_step(state.question, state.marks)
    has_result = isinstance(outcome, SearchOutcome) and outcome.ending in (SearchEnding.FOUND, SearchEnding.RANGE)
    return read_text(directory / ANSWER).strip() if has_result and (directory / ANSWER).is_file() else ""
