"""Which build was the first to fail: the search, and what is known of builds and of the answers. Pure."""

from repro_kit.bisect.build import Build, Judgement, Mark
from repro_kit.bisect.search import JudgeNext, Question, SearchEnding, SearchOutcome, following, next_step, steps_left

__all__ = [
    "Build",
    "JudgeNext",
    "Judgement",
    "Mark",
    "Question",
    "SearchEnding",
    "SearchOutcome",
    "following",
    "next_step",
    "steps_left",
]
