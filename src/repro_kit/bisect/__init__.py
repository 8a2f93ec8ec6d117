"""Which build was the first to fail: the search, and what is known of builds and of the answers. Pure."""

from repro_kit.bisect.build import Build, Judgement, Mark
from repro_kit.bisect.search import Ask, Ending, Outcome, Question, following, next_step, steps_left

__all__ = [
    "Ask",
    "Build",
    "Ending",
    "Judgement",
    "Mark",
    "Outcome",
    "Question",
    "following",
    "next_step",
    "steps_left",
]
