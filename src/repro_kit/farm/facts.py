"""What a bundle says of its case: the facts that decide whether two cases are the same bug."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from repro_kit.model.failure.signature import Signature


@dataclass(frozen=True)
class CaseFacts:
    """The facts; a bare `repro.py` has none of them."""

    signature: Signature | None = None
    layer: str | None = None
    cause: str = ""  # the part of the layer at fault
    culprit: str = ""  # the operator, pass or graph that the narrowing ended at
    flips: tuple[str, ...] = ()  # settings that make the failure disappear
    operators: tuple[str, ...] = ()  # of a reduced program
    torch: str | None = None  # the build that the bundle was made on
    repeats: int = 1  # runs that must all pass before the failure counts as gone
    limit: float | None = None  # seconds of one run

    @property
    def summary(self) -> str:
        """The failure in one line."""
        return self.signature.summary() if self.signature else "any failure (a bare repro.py says nothing of it)"

    @property
    def operator(self) -> str:
        """The operator at fault; "" if unknown."""
        named = self.signature.op if self.signature else None
        return named or self.culprit.rpartition(" ")[2] or (self.operators[0] if len(self.operators) == 1 else "")


def culprit_of(ablation: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The last link and the flips of the chain of evidence in an `ablation.json`, as plain data from a stranger."""
    chain = ablation.get("chain")
    if not isinstance(chain, dict):
        return "", ()
    links = [link for link in chain.get("links") or () if isinstance(link, dict) and not link.get("beside")]
    named = [str(link.get("culprit", "")) for link in links if "#" in str(link.get("culprit", ""))]
    flips = [str(flip.get("name", "")) for flip in chain.get("flips") or () if isinstance(flip, dict)]
    return (named[-1] if named else ""), tuple(sorted(filter(None, flips)))
