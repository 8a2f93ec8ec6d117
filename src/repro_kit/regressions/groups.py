"""The facts of a case, and whether two cases are the same bug: by signature, by likeness, by behaviour over builds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro_kit.failure.messages import same_op
from repro_kit.failure.signature import Signature
from repro_kit.regressions.build import Mark


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
    title: str = ""  # of the bundle's own report

    @property
    def told(self) -> str:
        """What fails, so that two wrong results differ: the bundle's title, else the failure and its operators."""
        if self.title:
            return self.title
        names = [self.operator] if self.operator else list(self.operators)
        where = ", ".join(name for name in names if name not in self.summary)
        return f"{self.summary} ({where})" if where else self.summary

    @property
    def lowering(self) -> str:
        """The function of the compiler in which it fails; "" if unknown."""
        frames = self.signature.frames if self.signature else ()
        return frames[0] if frames else ""

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


#: Two cases whose score is at least this are similar. Similar cases are one bug when they also behave alike.
SIMILAR = 0.75
#: Weights of the parts of the score. A part that both cases lack is left out, and the others count for more.
WEIGHTS = {"message": 0.35, "frames": 0.3, "operator": 0.25, "exceptions": 0.1}
_UNKNOWN = 0.5  # score of a part that only one of the two has
_AGREED = 2  # builds on which two similar cases must agree, of both kinds
_WORD = re.compile(r"[A-Za-z]{3,}")


@dataclass(frozen=True)
class Likeness:
    """How similar two cases are: a score from 0 to 1, and why."""

    score: float
    why: str
    same: bool = False  # the same bug


def likeness(mine: CaseFacts, other: CaseFacts) -> Likeness:
    """Compare two cases by their facts alone."""
    first, second = mine.signature, other.signature
    if first is None or second is None or first.kind is not second.kind:
        return Likeness(0.0, "different kinds of failure")
    contradiction = _contradiction(mine, other)
    if contradiction:
        return Likeness(0.0, contradiction)
    if replace(first, magnitude=0.0) == replace(second, magnitude=0.0):
        shared = _shared(mine, other)
        if not first.kind.policy.blunt:  # else other facts must agree as well
            return Likeness(1.0, f"equal signatures: {first.summary()}", same=_names_something(first))
        if shared:
            return Likeness(1.0, f"equal signatures ({first.summary()}), {' and '.join(shared)}", same=True)
        return Likeness(_UNKNOWN, "equal signatures, which do not say where the failure is")
    parts = _parts(mine, other)
    weight = sum(WEIGHTS[name] for name in parts)
    score = sum(WEIGHTS[name] * value for name, value in parts.items()) / weight if weight else 0.0
    words = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
    return Likeness(round(score, 3), f"likeness {score:.2f} ({words})")


def duplicate_of(facts: CaseFacts, earlier: Mapping[str, CaseFacts]) -> tuple[str, Likeness] | None:
    """The earlier case that is most like this one, if it is similar at all. `earlier`: oldest first, no duplicates."""
    best: tuple[str, Likeness] | None = None
    for name, other in earlier.items():
        alike = likeness(facts, other)
        if alike.score >= SIMILAR and (best is None or (alike.same, alike.score) > (best[1].same, best[1].score)):
            best = name, alike
    return best


def behave_alike(mine: Mapping[str, Mark], other: Mapping[str, Mark]) -> str:
    """Why two cases behave alike over builds, in words; "" when they differ, or too little is known.

    `mine` and `other`: the marks by build. They must agree on every build that both were decided on, and these must
    be some that fail and some that pass.
    """
    both = [build for build, mark in mine.items() if _decided(mark) and _decided(other.get(build))]
    kinds = {mine[build] for build in both}
    if len(both) < _AGREED or len(kinds) < 2 or any(mine[build] is not other[build] for build in both):
        return ""
    return f"both fail and pass on the same {len(both)} builds"


def parted(mine: Mapping[str, Mark], other: Mapping[str, Mark]) -> str:
    """The first build on which one of two cases fails and the other passes, in words; "" for none."""
    for build, mark in mine.items():
        if _decided(mark) and _decided(other.get(build)) and mark is not other[build]:
            return f"it {'fails' if mark is Mark.BAD else 'passes'} on {build}, and the other one does not"
    return ""


def _decided(mark: Mark | None) -> bool:
    return mark in (Mark.GOOD, Mark.BAD)


def _names_something(signature: Signature) -> bool:
    """Whether a signature is enough to recognise a bug: a bare type of exception is not."""
    return bool(signature.op or signature.frames or len(_WORD.findall(signature.message)) > 1)


def _contradiction(mine: CaseFacts, other: CaseFacts) -> str:
    """A fact in which the two differ although both have it; "" for none."""
    if mine.layer and other.layer and mine.layer != other.layer:
        return f"different layers: {mine.layer} and {other.layer}"
    if mine.operator and other.operator and not same_op(mine.operator, other.operator):
        return f"different operators: {mine.operator} and {other.operator}"
    if mine.cause and other.cause and mine.cause != other.cause:
        return f"different causes: {mine.cause} and {other.cause}"
    return ""


def _shared(mine: CaseFacts, other: CaseFacts) -> list[str]:
    """The facts that both cases share and that locate the failure, apart from the signature."""
    shared = []
    if mine.operator and other.operator:  # alike, or they would contradict each other
        shared.append(f"the same operator at fault: {mine.operator}")
    if mine.operators and set(mine.operators) == set(other.operators):
        shared.append("programs of the same operators")
    if mine.flips and mine.flips == other.flips:
        shared.append(f"gone with the same settings: {', '.join(mine.flips)}")
    return shared


def _parts(mine: CaseFacts, other: CaseFacts) -> dict[str, float]:
    first, second = mine.signature, other.signature
    assert first is not None
    assert second is not None
    pairs: dict[str, tuple[object, object]] = {
        "message": (first.message, second.message),
        "frames": (first.frames, second.frames),
        "operator": (mine.operator, other.operator),
        "exceptions": (first.exceptions, second.exceptions),
    }
    known = {name: pair for name, pair in pairs.items() if any(pair)}
    scores = {
        "message": lambda: _dice(_words(first.message), _words(second.message)),
        "frames": lambda: _common_frames(first.frames, second.frames),
        "operator": lambda: 1.0,  # different operators are a contradiction
        "exceptions": lambda: float(first.exceptions[-1:] == second.exceptions[-1:]),
    }
    return {name: scores[name]() if all(pair) else _UNKNOWN for name, pair in known.items()}


def _words(text: str) -> Counter[str]:
    return Counter(word.lower() for word in _WORD.findall(text))


def _dice(first: Counter[str], second: Counter[str]) -> float:
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 1.0


def _common_frames(first: Sequence[str], second: Sequence[str]) -> float:
    """The share of common frames; a frame counts half as much as the frame inside it."""
    weights = {frame: max(_weight(first, frame), _weight(second, frame)) for frame in (*first, *second)}
    common = sum(weight for frame, weight in weights.items() if frame in first and frame in second)
    return common / sum(weights.values())


def _weight(frames: Sequence[str], frame: str) -> float:
    return 0.5 ** frames.index(frame) if frame in frames else 0.0
