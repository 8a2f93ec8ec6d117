"""Start from the operators and values that the failure names: often one statement is the whole bug."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from repro_kit.program.effects import op_name
from repro_kit.reduce.keep import keep
from repro_kit.reduce.search_state import Proposal, Search

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
            yield keep(search, _around(search, units, unit, distance))
        if distance == 0 and len(named) > 1:
            yield keep(search, {at for unit in named for at in unit})


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
