"""The chain of evidence: from the layer at fault to the operator and the setting, each link with its two sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Step = Literal["backend", "graph", "subsystem", "op", "flips", "needs"]

#: In the order in which they are taken.
STEPS: tuple[Step, ...] = ("backend", "graph", "subsystem", "op", "flips", "needs")


@dataclass(frozen=True)
class Side:
    """One way to run the subject that was tried, what came of it, and the command that repeats it by hand."""

    what: str  # "all lowerings off"
    outcome: str  # "passes", "fails as observed", or the other failure
    repeat: str = ""  # empty: only repro-kit can switch that


@dataclass(frozen=True)
class Link:
    """One step of the chain: the part that is named, and the two sides that differ in it alone."""

    step: Step
    culprit: str  # "lowerings", "#17 aten.index_put.default"
    claim: str  # one sentence, nothing in it that was not seen
    good: Side | None = None
    bad: Side | None = None
    beside: bool = False  # goes with the failure too, and is not on the way to its cause
    runs: int = 0
    seconds: float = 0.0
    where: str = ""  # file, line and text of the user's statement, where torch knows it

    @property
    def told(self) -> str:
        """The claim with the place."""
        return f"{self.claim.removesuffix('.')} ({self.where})." if self.where else self.claim


@dataclass(frozen=True)
class Untried:
    """A step that was not taken, and why."""

    step: Step
    why: str


@dataclass(frozen=True)
class Flip:
    """A setting's other value, alone, with which the failure is gone."""

    name: str  # "inductor.pattern_matcher"
    value: object
    before: object = None
    repeat: str = ""
    limits: str = ""  # what is lost with it, where that is more than speed: "compiles nothing"


@dataclass(frozen=True)
class Chain:
    """All links, what could not be tried, and what it cost."""

    subject: Literal["program", "script"]
    links: tuple[Link, ...] = ()
    untried: tuple[Untried, ...] = ()
    flips: tuple[Flip, ...] = ()
    needs: tuple[str, ...] | None = None  # the user's own settings without which it passes; None: not tried
    runs: int = 0
    seconds: float = 0.0


def in_one_line(chain: Chain) -> str:
    """``inductor → lowerings → #17 aten.index_put.default``; empty when nothing could be named."""
    return " → ".join(link.culprit for link in chain.links if not link.beside)


def chain_markdown(chain: Chain) -> str:
    """The chain as a Markdown list; empty when nothing could be named beyond the backend."""
    if len(chain.links) < 2:
        return ""
    lines = [f"**{in_one_line(chain)}**", ""]
    for link in chain.links:
        lines.append(f"- {'also: ' if link.beside else ''}{link.told}")
        for side, word in ((link.good, "good"), (link.bad, "bad")):
            if side is not None:
                lines.append(
                    f"  - {word}: {side.what}: {side.outcome}" + (f" (`{side.repeat}`)" if side.repeat else "")
                )
    lines += [f"- no {it.step} named: {it.why}" for it in chain.untried]
    return "\n".join([*lines, ""])
