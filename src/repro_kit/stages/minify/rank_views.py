"""The ways to run the script of several ranks while it is reduced: one rank alone, else as few ranks as fail alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from repro_kit.case.case import Case
from repro_kit.runner.read_findings import read_findings
from repro_kit.session.verdicts.deadlock_rule import latest
from repro_kit.session.verdicts.rank_report import suspects
from repro_kit.source import SourceProgram
from repro_kit.source.ranks import alone, joins_group, started_outside
from repro_kit.stages.minify.source_files import ranks_of

_ALONE = 2  # ranks that are tried alone


@dataclass(frozen=True)
class RankView:
    """A script, the number of processes that run it, and what that leaves out, in words."""

    program: SourceProgram
    ranks: int = 1
    note: str = ""
    without_group: str = ""  # the note if what is left of the script joins no process group

    def note_of(self, reduced: SourceProgram) -> str:
        """The note on what is left of the script."""
        return self.note if joins_group(reduced) else self.without_group or self.note


def rank_views(case: Case, program: SourceProgram, *, together: bool) -> Iterator[RankView]:
    """The ways to run `program`, the cheapest first. A script of one process has one.

    `together`: the failure needs at least two ranks.
    """
    findings = read_findings(case.path / "observe" / "probe")
    states = latest(findings)
    launched = ranks_of(case.file.subject) or len(states)
    size = states[0].size if states else launched
    if size < 2:
        yield RankView(program)
        return
    ranks = () if together else suspects(case.path / "observe" / "trace", findings) or (0,)
    for rank in ranks[:_ALONE]:
        fails = f"rank {rank} of {size} fails alone"
        yield RankView(
            alone(program, rank, size),
            note=f"{fails}, in a fake process group whose collectives make up their results",
            without_group=f"{fails}, without a process group",
        )
    outside = started_outside(program)
    if launched > 1 or outside != program:
        for fewer in dict.fromkeys((2, size)):
            yield RankView(outside, fewer, f"{fewer} of {size} ranks are enough" if fewer < size else "")
