"""Find the first build that fails: the search, the builds, and the judgements on them. The package is pure."""

from repro_kit.bisect.build import Build, Judgement, Mark
from repro_kit.bisect.next_build import (
    JudgeNext,
    Question,
    SearchEnding,
    SearchOutcome,
    following,
    next_step,
    steps_left,
)

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
