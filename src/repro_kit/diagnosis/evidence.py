"""The chain of evidence from the layer at fault to an operator and a setting; each link has a good and a bad side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Step = Literal["backend", "graph", "subsystem", "op", "flips", "needs"]

#: What a link of the step "op" shows of a pass of the user's own: the failure begins with it; it alone is switched; or
#: the failure stays without Inductor's lowerings.
Finding = Literal["users-pass", "alone", "stays-without-lowerings", ""]

#: The steps, in the order in which they are taken.
STEPS: tuple[Step, ...] = ("backend", "graph", "subsystem", "op", "flips", "needs")


@dataclass(frozen=True)
class Side:
    """One way in which the subject was run, its outcome, and the command that repeats the run by hand."""

    what: str  # "all lowerings off"
    outcome: str  # "passes", "fails as observed", or the other failure
    repeat: str = ""  # empty: only repro-kit can switch this


@dataclass(frozen=True)
class Link:
    """One step of the chain: the part it names, and two runs that differ in this part alone."""

    step: Step
    culprit: str  # "lowerings", "#17 aten.index_put.default"
    claim: str  # one sentence that the two sides support
    good: Side | None = None
    bad: Side | None = None
    beside: bool = False  # also needed for the failure, but not part of the path to its cause
    runs: int = 0
    seconds: float = 0.0
    where: str = ""  # file, line and text of the user's statement, if torch knows it
    tried: tuple[Side, ...] = ()  # every subsystem that was switched off, and how the subject ended
    finding: Finding = ""

    @property
    def sentence(self) -> str:
        """The claim, with the statement of the user's program if torch knows it."""
        return f"{self.claim.removesuffix('.')} ({self.where})." if self.where else self.claim


@dataclass(frozen=True)
class Untried:
    """A step that was not taken, and why."""

    step: Step
    why: str
    tried: tuple[Side, ...] = ()  # as in `Link`


@dataclass(frozen=True)
class Flip:
    """Another value of one setting. With this change alone the failure is gone."""

    name: str  # "inductor.pattern_matcher"
    value: object
    before: object = None
    repeat: str = ""
    limits: str = ""  # the cost besides speed: "compiles nothing"


@dataclass(frozen=True)
class Chain:
    """All links, the steps that were not taken, and the cost of the whole chain."""

    subject: Literal["program", "script"]
    links: tuple[Link, ...] = ()
    untried: tuple[Untried, ...] = ()
    flips: tuple[Flip, ...] = ()
    needs: tuple[str, ...] | None = None  # the user's settings that the failure needs; None: not tried
    runs: int = 0
    seconds: float = 0.0


def in_one_line(chain: Chain) -> str:
    """``inductor → lowerings → #17 aten.index_put.default``; empty when nothing could be named."""
    return " → ".join(link.culprit for link in chain.links if not link.beside)


def chain_markdown(chain: Chain) -> str:
    """The chain as a Markdown list; "" when the chain names nothing beyond the backend."""
    if len(chain.links) < 2:
        return ""
    lines = [f"**{in_one_line(chain)}**", ""]
    for link in chain.links:
        lines.append(f"- {'also: ' if link.beside else ''}{link.sentence}")
        for side, word in ((link.good, "good"), (link.bad, "bad")):
            if side is not None:
                lines.append(
                    f"  - {word}: {side.what}: {side.outcome}" + (f" (`{side.repeat}`)" if side.repeat else "")
                )
    lines += [f"- no {step.step} named: {step.why}" for step in chain.untried]
    return "\n".join([*lines, ""])
