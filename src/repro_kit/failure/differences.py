"""What differs from eager: the kind and place, errors of rounding, and the Python state after a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import isclose, isnan
from typing import Any, Literal

from repro_kit.failure.failure import STATE, Difference
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature

#: What `torch.testing.assert_close` says of a result: the attribute that differs, or that values do.
_ATTRIBUTE = re.compile(r"[Tt]he values for attribute '(\w+)")
_VALUES = re.compile(r"\b(?:are|is|were|was) not (?:close|equal)\b|\bnot almost equal\b")
_WORDS = {
    "value": "the values",
    "nan": "the values",
    "alias": "the memory that is shared",
    "structure": "the structure",
    "random": "the state of random numbers",
    "warning": "the warnings",
    STATE: "the Python state after a call",
}


def changed_since(
    first: Signature, last: Signature, then: str = "in repro.py", before_that: str = "in the script"
) -> str:
    """A sentence that says what differed at first, `before_that`, and what differs at last, `then`.

    "" where that is the same, or not known.
    """
    before, after = _kind(first), _kind(last)
    elsewhere = set(last.places) - set(first.places) if first.places else ()
    if not (before and after) or (before == after and not elsewhere):
        return ""
    return (
        f"What differs from eager has changed: {before_that} it is {before}{_at(first)}, "
        f"{then} it is {after}{_at(last)}."
    )


def _kind(signature: Signature) -> str:
    """What differs; "" if that is not known: the script's own check may not say it."""
    if signature.kind is not Kind.ACCURACY:
        return ""
    kind = (*signature.worse, signature.difference)[0]
    if kind is None and (attribute := _ATTRIBUTE.search(signature.message)):
        kind = attribute[1]
    elif kind is None and _VALUES.search(signature.message):
        kind = "value"
    return _WORDS.get(kind, f"the {kind}") if kind else ""


def _at(signature: Signature) -> str:
    """`` of an output and an argument``."""
    places = " and ".join(f"{'an' if place[0] in 'aeiou' else 'a'} {place}" for place in signature.places)
    return f" of {places}" if places else ""


@dataclass(frozen=True)
class ResultErrors:
    """One result whose values differ, with its largest errors; None if there is nothing to hold it against."""

    where: str
    dtype: str
    elements: int
    apart: float  # share of the elements that differ by more than the tolerance
    explained: bool  # eager's own rounding explains the difference
    gap: float = 0.0  # compiled against eager
    eager: float | None = None  # eager against double precision
    compiled: float | None = None  # compiled against double precision
    nudged: float | None = None  # eager's runs with disturbed rounding against eager
    size: float = 0.0  # the root of the mean square of eager's result


_UNBOUNDED = 1e308  # the largest number; JSON has no infinity


@dataclass(frozen=True)
class SettingTried:
    """The captured graph, compiled anew under one setting: whether its results agree with eager's then."""

    setting: str  # "inductor.emulate_precision_casts=True"
    agrees: bool
    gap: float  # the largest difference from eager that is left

    @property
    def ending(self) -> str:
        """How the compiled graph compares with eager under the setting."""
        if not self.gap:
            return "gives eager's results bit for bit"
        if self.gap >= _UNBOUNDED:
            return "gives infinite results where eager's are finite, or finite ones where eager's are infinite"
        if not self.agrees:
            return f"still differs from eager, by {self.gap:.2g} at most"
        return f"differs from eager by {self.gap:.2g} at most, which agrees"


@dataclass(frozen=True)
class Rounding:
    """`rounding.json`: why a difference is not a bug. `evidence` says in sentences what was run, and what it showed."""

    errors: tuple[ResultErrors, ...] = ()
    evidence: tuple[str, ...] = ()
    first: tuple[str, ...] = ()  # the statements of the captured graph at which the two part
    why: str = ""  # the reason in words
    growth: float = 0.0  # how many times larger one rounding error is at the end; 0: unknown
    restored_by: str = ""  # the setting that restores eager's rounding; empty: none of `tried` does
    tried: tuple[SettingTried, ...] = ()
    random: bool = False  # other random numbers explain the difference, and not rounding

    @property
    def cause(self) -> str:
        """The cause of the difference, as a title."""
        return "Random numbers" if self.random else "Rounding"

    @property
    def sentence(self) -> str:
        """What was found, in one line."""
        if self.random:
            return f"{self.why}; {self.restored_by} makes them the same"
        restored = f"; {self.restored_by} restores eager's rounding" if self.restored_by else ""
        return f"eager's own rounding explains the difference{': ' + self.why if self.why else ''}{restored}"

    @property
    def accounts(self) -> tuple[str, ...]:
        """What was run and seen, as sentences."""
        sentences = list(self.evidence)
        if self.first:
            sentences.append(f"the two part at: {'; '.join(self.first)}")
        if self.growth > 1:
            sentences.append(f"one rounding error grows {self.growth:.2g}-fold on its way to the result")
        sentences += (f"with {trial.setting} the compiled graph {trial.ending}" for trial in self.tried)
        return tuple(sentences)

    @property
    def table(self) -> list[tuple[str, ...]]:
        """The errors as rows of words, a head first; of many, those that differ most."""
        head = ("result", "dtype", "eager vs fp64", "compiled vs fp64", "compiled vs eager", "eager nudged")
        most = sorted(self.errors, key=lambda row: -row.gap)[:_MOST_ROWS]
        rows = [row for row in self.errors if row in most]
        words = [(row.where, row.dtype, *map(_number, (row.eager, row.compiled, row.gap, row.nudged))) for row in rows]
        left_out = len(self.errors) - len(rows)
        return [head, *words, *([(f"… and {left_out} more", *[""] * 5)] if left_out else [])]


_MOST_ROWS = 8


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2g}"


_RTOL = 1e-3
_MISSING = object()


@dataclass(frozen=True)
class DifferingCall:
    """The first call after which two runs differ: in what it returned, or only in the Python state that it left."""

    call: int  # counted from 1
    function: str
    state: Difference | None = None  # None: its result differs

    @property
    def what(self) -> Literal["result", "state"]:
        """What differs."""
        return "result" if self.state is None else "state"

    def __str__(self) -> str:
        call = f"call {self.call} of compiled functions ({self.function})"
        if self.state is None:
            return f"{call} returns or raises something else than in eager"
        name = self.state.where.removesuffix(_after(self.call))
        return (
            f"{call} ends as it does in eager, but leaves another state: "
            f"{name} ({self.state.eager} in eager, {self.state.compiled} when compiled)"
        )


def first_differing_call(eager: Sequence[Any], compiled: Sequence[Any]) -> DifferingCall | None:
    """The first call whose result or state differs; None when the runs agree or make different calls.

    A call is [function, arguments before, result, state after].
    """
    for number, (eager_call, compiled_call) in enumerate(zip(eager, compiled, strict=False), start=1):
        if eager_call[0] != compiled_call[0] or not _alike(eager_call[1], compiled_call[1]):
            return None
        if not _alike(eager_call[2], compiled_call[2]):
            return DifferingCall(number, eager_call[0])
        shared = {name: state for name, state in eager_call[3].items() if name in compiled_call[3]}
        difference = state_difference(shared, {name: compiled_call[3][name] for name in shared}, number)
        if difference is not None:
            return DifferingCall(number, eager_call[0], difference)
    return None


def state_difference(eager: Any, compiled: Any, call: int) -> Difference | None:
    """The first difference of two states after call number `call`: the names that lead to it, and both values in words.

    Numbers are shown as they are. What else the user holds may be private: of a text only its length is shown.
    """
    if _alike(eager, compiled):
        return None
    names: list[str] = []
    while isinstance(eager, dict) and isinstance(compiled, dict):
        name = next((name for name in eager if name not in compiled or not _alike(eager[name], compiled[name])), None)
        if name is None:
            break
        names.append(name)
        eager, compiled = eager[name], compiled.get(name, _MISSING)
    where, of = ".".join(names) + _after(call), ""
    if _is_list(eager) and _is_list(compiled) and eager[0] == compiled[0]:
        at = next((at for at in range(1, len(eager)) if not _alike(eager[at : at + 1], compiled[at : at + 1])), 0)
        if at:
            of = f" as item {at - 1} of {eager[0]}"
            eager, compiled = eager[at], compiled[at]
    return Difference.of_state(where, f"{_shown(eager)}{of}", f"{_shown(compiled)}{of}")


def _after(call: int) -> str:
    return f" after call {call}"


def _is_list(value: Any) -> bool:
    """Whether `value` is the digest of a list: its length, and its first items."""
    return isinstance(value, list) and bool(value) and type(value[0]) is int


def _shown(value: Any) -> str:
    match value:
        case str():
            return f"a text of {_count(len(value), 'character')}"
        case dict():
            return f"an object with {_count(len(value), 'entry', 'entries')}"
        case ["tensor", str(dtype), list(shape), *sums]:
            size = f", sum of sizes {sums[0]:.6g}" if sums else ""
            return f"a tensor of {dtype.removeprefix('torch.')}{shape}{size}"
        case [int(length), *_]:
            return _count(length, "item")
    return "nothing" if value is _MISSING else repr(value)


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _alike(first: Any, second: Any) -> bool:
    """Whether two digests are equal, up to the rounding of their numbers."""
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=_RTOL, abs_tol=_RTOL) or (isnan(first) and isnan(second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_alike(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return all(_alike(a, b) for a, b in zip_longest(first, second, fillvalue=_MISSING))
    return bool(first == second)
