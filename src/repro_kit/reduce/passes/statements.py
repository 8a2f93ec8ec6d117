"""Remove statements: replace values by inputs or by operands, and drop regions and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from repro_kit.program.rebuild import Edit
from repro_kit.program.value_records import TensorRecord
from repro_kit.reduce.adaptive import sweep
from repro_kit.reduce.keep import keep
from repro_kit.reduce.search_state import Proposal, Search

_MOST_PAIRED = 7  # a program with at most so many statements has each pair of them tried
_NEAR = 32  # values to look at in search of a matching one


def tidy(search: Search) -> None:
    """Drop dead statements."""
    search.first([Edit()])


def to_input(search: Search) -> None:
    """Replace runs of statements by inputs that hold their recorded values."""
    units = search.units()

    def propose(units: Sequence[tuple[int, ...]]) -> Proposal:
        gone = {at for unit in units for at in unit}
        return keep(search, [at for at in search.live if at not in gone]) if gone.intersection(search.live) else None

    if search.coarse:
        units = units[1:-1]  # the cuts found that the failure needs the first and the last unit
    sweep(search, units, propose, width=None if search.coarse else 1)


def bypass(search: Search) -> None:
    """Replace a value by one that it was computed from, where shape and dtype agree."""
    base, names = search.base, search.names
    made_of = {base.statements[at].target: [names.get(name, name) for name in base.reads[at]] for at in search.live}
    first: list[tuple[int, str]] = []
    further: list[tuple[int, str]] = []
    for at in reversed(search.live[1:-1] if search.coarse else search.live):
        target = base.statements[at].target
        if target is not None:
            sources = (_nearest(search, target, operand, made_of) for operand in made_of[target])
            candidates = [(at, name) for name in dict.fromkeys(sources) if name is not None]
            first += candidates[:1]
            further += candidates[1:]

    def propose(items: Sequence[tuple[int, str]]) -> Proposal:
        live = set(search.live)
        values = {base.statements[at].target or "": name for at, name in items if at in live}
        return Edit(bypass=values) if values else None

    sweep(search, [*first, *further], propose, width=None if search.coarse else 1)


def _nearest(search: Search, target: str, operand: str, made_of: Mapping[str | None, Sequence[str]]) -> str | None:
    """`operand`, or the nearest value that it was computed from, that can replace `target`; None when none can."""
    level, seen = [operand], {operand}
    while level and len(seen) < _NEAR:
        match = next((name for name in level if alike(search, target, name)), None)
        if match is not None:
            return match
        above = dict.fromkeys(source for name in level for source in made_of.get(name, ()))
        level = [name for name in above if name not in seen]
        seen.update(level)
    return None


def alike(search: Search, value: str, other: str) -> bool:
    """Whether one value can replace another: same shape, dtype and device."""
    mine, its = search.metadata.get(value), search.metadata.get(other)
    if not (isinstance(mine, TensorRecord) and isinstance(its, TensorRecord)):
        return False
    return (mine.shape, mine.dtype, mine.device) == (its.shape, its.dtype, its.device)


def pairs(search: Search) -> None:
    """Remove two statements at once, at the end: some statements can only go together."""
    while not search.coarse and 2 < len(search.units()) <= _MOST_PAIRED:
        live = set(search.live)
        two = combinations(search.units(), 2)
        if search.first(keep(search, live.difference(unit, second)) for unit, second in two) is None:
            return


def effects(search: Search) -> None:
    """Drop statements that only set state. Statements of one group go together."""

    def propose(groups: Sequence[tuple[int, ...]]) -> Proposal:
        gone = frozenset(at for group in groups for at in group)
        return Edit(removed=gone) if gone.intersection(search.live) else None

    live = set(search.live)
    sweep(search, [group for group in search.base.states if live.intersection(group)], propose)


def outputs(search: Search) -> None:
    """Return fewer values: a single one if possible."""
    if len(search.outputs) < 2:
        return

    def propose(dropped: Sequence[str]) -> Proposal:
        left = tuple(name for name in search.outputs if name not in dropped)
        return Edit(outputs=left) if left and len(left) < len(search.outputs) else None

    sweep(search, list(search.outputs), propose)


def merge_inputs(search: Search) -> None:
    """Pass one input in place of several with the same metadata."""
    seen: dict[object, str] = {}
    items: list[tuple[str, str]] = []
    for name in search.inputs:
        record = search.metadata.get(name)
        if isinstance(record, TensorRecord):
            key = (record.shape, record.stride, record.dtype, record.device, record.requires_grad)
            if key in seen:
                items.append((name, seen[key]))
            else:
                seen[key] = name

    sweep(search, items, lambda pairs: Edit(bypass=dict(pairs)))
