"""What differs from eager, in words, and whether it is still what differed at first."""

from __future__ import annotations

import re

from repro_kit.model.failure.failure import STATE, Kind
from repro_kit.model.failure.signature import Signature

#: What `torch.testing.assert_close` says of a result: the attribute that differs, or that values do.
_ATTRIBUTE = re.compile(r"[Tt]he values for attribute '(\w+)")
_VALUES = re.compile(r"\b(?:are|is|were|was) not (?:close|equal)\b|\bnot almost equal\b")
_WORDS = {
    "value": "the values",
    "nan": "the values",
    "alias": "the memory that is shared",
    "structure": "the structure",
    STATE: "the Python state after a call",
}


def changed_since(first: Signature, last: Signature, then: str = "in repro.py") -> str:
    """A sentence that says what differed at first, in the script, and what differs at last: `then`.

    "" where that is the same, or not known.
    """
    before, after = _kind(first), _kind(last)
    elsewhere = bool(first.places and last.places) and not set(first.places) & set(last.places)
    if not (before and after) or (before == after and not elsewhere):
        return ""
    return (
        f"What differs from eager has changed: in the script it is {before}{_at(first)}, "
        f"{then} it is {after}{_at(last)}."
    )


def _kind(signature: Signature) -> str:
    """What differs; "" if that is not known: the script's own check may not say it."""
    if signature.kind is not Kind.ACCURACY:
        return ""
    kind = signature.difference
    if kind is None and (attribute := _ATTRIBUTE.search(signature.message)):
        kind = attribute[1]
    elif kind is None and _VALUES.search(signature.message):
        kind = "value"
    return _WORDS.get(kind, f"the {kind}") if kind else ""


def _at(signature: Signature) -> str:
    """`` of an output and an argument``."""
    places = " and ".join(f"{'an' if place[0] in 'aeiou' else 'a'} {place}" for place in signature.places)
    return f" of {places}" if places else ""
