"""Shrink a program while it keeps failing with the same failure.

The package is pure: the caller passes in the oracle, the clock and the journal. `minify` is the entry point. A pass
(`passes/`) only proposes edits; `Search` judges them, accepts one and keeps the state.
"""

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.reduce.answer_journal import Journal
from repro_kit.reduce.candidate_search import Accepted, Event
from repro_kit.reduce.oracle import Answer, Oracle
from repro_kit.reduce.order import measure
from repro_kit.reduce.reducer import minify
from repro_kit.reduce.result import CannotReduce, Result

__all__ = [
    "Accepted",
    "Answer",
    "CannotReduce",
    "Event",
    "Journal",
    "Oracle",
    "Result",
    "RunOutcome",
    "measure",
    "minify",
]
