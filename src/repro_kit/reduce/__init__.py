"""The search for the smallest thing that fails with the same failure, whatever it is.

The package knows neither graphs nor scripts, and is pure: the caller passes in the oracle, the clock and the journal. A
pass only proposes edits; a `CandidateSearch` makes candidates of them, asks the oracle, and accepts the first smaller
one that fails alike. Edits and passes are kept with what they edit.
"""

from repro_kit.failure.signature import RunOutcome
from repro_kit.reduce.reduction import CannotReduce, Result
from repro_kit.reduce.search import Accepted, Answer, Event, Journal

__all__ = [
    "Accepted",
    "Answer",
    "CannotReduce",
    "Event",
    "Journal",
    "Result",
    "RunOutcome",
]
