"""Say where the ranks of a distributed run compiled different code: a common cause of hangs in collectives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from repro_kit.runner.read_findings import Findings
from repro_kit.trace.insights.gather import gather
from repro_kit.trace.insights.ranks import Divergence

_SHOWN = ("compiles", "graph")


def rank_sentences(trace: Path, findings: Findings) -> Iterator[str]:
    """The first compile in which the ranks differ; nothing for one rank, or where all ranks agree.

    `trace`: the directory of the run's logs.
    """
    if len({process.rank for process in findings.processes if process.rank is not None}) < 2:
        return
    divergences = [divergence for divergence in gather(trace).ranks.divergences if divergence.what in _SHOWN]
    if divergences:
        more = f", and {len(divergences) - 1} more differ" if len(divergences) > 1 else ""
        yield (
            f"The ranks differ: {_in_words(divergences[0])}{more}. A rank that runs other collectives than the others"
            " makes them wait. `repro-kit explain CASE --section ranks` lists the differences."
        )


def _in_words(divergence: Divergence) -> str:
    ranks = {text: ", ".join(map(str, numbers)) for text, numbers in divergence.groups}
    if divergence.what == "compiles":
        return f"only rank {ranks['compiled']} compiled {divergence.compile_id}"
    groups = " and ".join(f"rank {numbers}" for numbers in ranks.values())
    return f"{groups} have different graphs in {divergence.compile_id}"
