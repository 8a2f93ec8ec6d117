"""The table of builds and verdicts of one case, and its summary in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from repro_kit.farm.standing import Standing, Trend, standing_of, tally_of
from repro_kit.farm.unit import WORDS, UnitResult
from repro_kit.model.run_outcome import RunOutcome

_SIGNS = {RunOutcome.FAILS_ALIKE: "✗", RunOutcome.PASSES: "✓", RunOutcome.FAILS_OTHERWISE: "!"}
#: What a table says of an outcome.
CELLS = {outcome: f"{_SIGNS.get(outcome, '·')} {words}" for outcome, words in WORDS.items()}


@dataclass(frozen=True)
class ReleaseTable:
    """One row for each build, oldest first."""

    rows: tuple[tuple[str, str, str, str], ...]
    sentence: str
    standing: Standing
    verdicts: tuple[UnitResult, ...] = field(default=())
    columns: tuple[str, ...] = ("build", "verdict", "what was seen", "seconds")

    @property
    def confidence(self) -> float:
        """The probability that no end of any flip is misjudged by chance: the product over the flips."""
        return prod(flip.confidence for flip in self.standing.flips)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``--json``."""
        return {
            "sentence": self.sentence,
            "confidence": round(self.confidence, 4),
            "builds": [
                {
                    "build": verdict.build,
                    "outcome": verdict.outcome,
                    "failed": verdict.failed,
                    "passed": verdict.passed,
                    "note": verdict.note or None,
                    "seconds": round(verdict.seconds, 1),
                }
                for verdict in self.verdicts
            ],
            "flips": [
                {"before": flip.before.build, "after": flip.after.build, "fixed": flip.fixed,
                 "confidence": round(flip.confidence, 4)}
                for flip in self.standing.flips
            ],
        }  # fmt: skip

    def as_markdown(self) -> str:
        """The table as Markdown, to paste into an issue."""
        lines = ["| " + " | ".join(self.columns[:3]) + " |", "|---|---|---|"]
        lines += ["| " + " | ".join(map(_cell, row[:3])) + " |" for row in self.rows]
        return "\n".join([*lines, "", self.sentence, ""])


def release_table(
    verdicts: Sequence[UnitResult], claimed: int = 1, names: Mapping[str, str] | None = None
) -> ReleaseTable:
    """The table of `verdicts`, oldest build first. `names`: the names to show, by build; by default the build's own."""
    standing = standing_of("", verdicts, tally_of(verdicts), claimed)
    called = names or {}
    rows = tuple(
        (called.get(each.build, each.build), CELLS[each.outcome], seen_in_words(each), f"{each.seconds:.1f}")
        for each in verdicts
    )
    return ReleaseTable(rows, _sentence(standing, called), standing, tuple(verdicts))


def seen_in_words(verdict: UnitResult) -> str:
    """The runs on a build, and what else was seen."""
    runs = verdict.failed + verdict.passed
    counts = f"{verdict.failed} of {runs} runs fail" if verdict.failed and verdict.passed else f"{runs} runs"
    return "; ".join(part for part in (counts if runs > 1 else "", verdict.note) if part)


def _sentence(standing: Standing, called: Mapping[str, str]) -> str:
    if standing.newest is None:
        return "It was not run."
    newest = called.get(standing.newest.build, standing.newest.build)
    if standing.flips:
        text = ", then ".join(flip.sentence for flip in standing.flips)
        for build, name in called.items():
            text = text.replace(build, name)
        return f"It {text}."
    match standing.trend:
        case Trend.UNDECIDED:
            return f"It passes on {newest} in {standing.passes} runs; {standing.needed} in a row are needed to say so."
        case Trend.CANNOT_RUN:
            return f"It cannot run on {newest}: {standing.newest.note}."
        case Trend.OTHERWISE:
            return f"It fails differently on {newest}: {standing.newest.note}."
    return f"It {standing.trend} on every build that can run it."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;").replace("|", "\\|")
