"""Remove statements: what hints do not name, what is before or after the failure, and what can be replaced."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from repro_kit.graph.edits import Edit
from repro_kit.graph.effects import op_name
from repro_kit.graph.search import Proposal, Search, restrict_to
from repro_kit.graph.values import TensorRecord
from repro_kit.reduce.proposing import narrow, sweep

_MOST_PAIRED = 7  # a program with at most so many statements has each pair of them tried
_FEWEST = 8  # statements that are worth dividing
_NEAR = 32  # values to look at in search of a matching one


def tidy(search: Search) -> None:
    """Drop dead statements."""
    search.first([Edit()])


def to_input(search: Search) -> None:
    """Replace runs of statements by inputs that hold their recorded values."""
    units = search.units()

    def propose(units: Sequence[tuple[int, ...]]) -> Proposal:
        gone = {at for unit in units for at in unit}
        return (
            restrict_to(search, [at for at in search.live if at not in gone])
            if gone.intersection(search.live)
            else None
        )

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
        if search.first(restrict_to(search, live.difference(unit, second)) for unit, second in two) is None:
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


def parts(search: Search) -> None:
    """Keep a single one of a few parts, as long as one fails alone.

    That costs less than to cut at both ends, since a part is small, while what passes there is most of the program.
    """
    while len(blocks := _blocks(search)) >= _FEWEST:
        width = math.ceil(len(blocks) / search.costs.parts(len(blocks)))
        starts = range(0, len(blocks), width)
        if search.first(restrict_to(search, _joined(blocks[at : at + width])) for at in starts) is None:
            return


def cut_end(search: Search) -> None:
    """Bisect for the shortest failing prefix."""
    blocks = _blocks(search)
    narrow(search, 0, len(blocks), lambda _, at: [restrict_to(search, _joined(blocks[:at]))])


def cut_start(search: Search) -> None:
    """Bisect for the latest failing start."""
    blocks = _blocks(search)
    narrow(search, len(blocks), 0, lambda _, at: [restrict_to(search, _joined(blocks[at:]))])


def ends(search: Search) -> None:
    """Keep only the first and the last block: the cuts found that the failure begins and ends there."""
    blocks = _blocks(search)
    if len(blocks) > 2:
        search.first([restrict_to(search, [*blocks[0], *blocks[-1]])])


def _joined(blocks: Sequence[Sequence[int]]) -> list[int]:
    return [at for block in blocks for at in block]


def _blocks(search: Search) -> list[list[int]]:
    """Live units in order. The units inside one functorch level form one block."""
    regions = search.base.regions
    blocks: list[list[int]] = []
    last = None
    for unit in search.units():
        region = next((bounds for bounds in regions if bounds[0] < unit[0] < bounds[1]), None)
        if region is not None and region == last:
            blocks[-1] += unit
        else:
            blocks.append(list(unit))
        last = region
    return blocks


_KERNEL = re.compile(r"(?:cpp|(?:triton|mps)_\w{3})_fused_(\w+)")
#: (distance from the named statement in data flow, number of named statements to try)
_GROWTH = ((0, 6), (1, 4), (2, 2), (4, 1), (8, 1))


def guess(search: Search, hints: Sequence[str]) -> None:
    """Keep only a statement that a hint names; if this does not fail alike, keep more and more of its surroundings.

    A hint is an operator (``aten.relu.default``, ``torch.relu``), a text that names generated kernels
    (``cpp_fused_add_relu_0``), or the name of a value.
    """
    units = search.units()
    named = [unit for hint in hints for unit in _named(search, units, hint)]
    if named:
        search.first(_proposals(search, units, list(dict.fromkeys(named))))


def _named(search: Search, units: Sequence[tuple[int, ...]], hint: str) -> list[tuple[int, ...]]:
    statements = search.base.statements
    exact, close = [], []
    for unit in units:
        name = op_name(statements[unit[0]]).strip("_")
        if any(statements[at].target == hint for at in unit) or (name and name in _names(hint)):
            exact.append(unit)
        elif len(name) > 2 and any(_overlap(name, hinted) for hinted in _names(hint)):
            close.append(unit)
    return exact or close


def _names(hint: str) -> list[str]:
    """The names that the operator of `hint` may have in the program, without namespace and overload."""
    kernels = _KERNEL.findall(hint)
    if kernels:
        return [str(kernel) for kernel in kernels]
    parts = [part.strip("_") for part in hint.replace("::", ".").split(".")]
    if parts[0] in ("aten", "prims", "inductor", "higher_order", "quantized", "mkldnn"):
        return parts[1:2]
    return parts[-1:]


def _overlap(name: str, other: str) -> bool:
    return f"_{name}_" in f"_{other}_" or f"_{other}_" in f"_{name}_"


def _proposals(
    search: Search, units: Sequence[tuple[int, ...]], named: Sequence[tuple[int, ...]]
) -> Iterator[Proposal]:
    for distance, count in _GROWTH:
        for unit in named[:count]:
            yield restrict_to(search, _around(search, units, unit, distance))
        if distance == 0 and len(named) > 1:
            yield restrict_to(search, {at for unit in named for at in unit})


def _around(search: Search, units: Sequence[tuple[int, ...]], unit: tuple[int, ...], distance: int) -> set[int]:
    """Statements at most `distance` steps of data flow away from `unit`, in both directions."""
    base, names = search.base, search.names
    owner = {at: owner_unit for owner_unit in units for at in owner_unit}
    makers = {base.statements[at].target: at for at in search.live if base.statements[at].target is not None}
    readers: dict[int, set[int]] = {}
    reads: dict[int, set[int]] = {}
    for at in search.live:
        sources = {makers[source] for source in (names.get(name, name) for name in base.reads[at]) if source in makers}
        reads[at] = sources
        for source in sources:
            readers.setdefault(source, set()).add(at)
    near_by, edge = set(unit), set(unit)
    for _ in range(distance):
        edge = {near for at in edge for near in (*reads.get(at, ()), *readers.get(at, ()))} - near_by
        edge |= {at for near in edge for at in owner.get(near, ())} - near_by
        near_by |= edge
    return near_by
