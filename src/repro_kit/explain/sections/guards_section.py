"""Guards: what is checked before compiled code runs, which compiles they set apart, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from repro_kit.explain.context import Context, compiled_name, counted, ids
from repro_kit.explain.view import Item, Section, Table, Words
from repro_kit.trace.guard_text import Guard
from repro_kit.trace.insights.guards import GuardGroup, Guards

_ROWS = 40
_SAYING = (Guard.VALUE, Guard.SIZE, Guard.STRIDE, Guard.PRESENCE)  # kinds whose checks say more than their source
_CHECK = 90  # characters of a guard


def section(context: Context) -> Section:
    """What differs first, then shapes, costs, and all others."""
    guards = context.insights.guards
    if not guards.total and not guards.groups:
        return Section("guards", "Guards", "none in this trace")
    return Section("guards", "Guards", counted(guards.total, "guard"), tuple(_items(context, guards)))


def _items(context: Context, guards: Guards) -> Iterator[Item]:
    for one in guards.differing:
        times = f"compiled {len(one.compiles)} times"
        title = f"{compiled_name(one.name)}: the same graph, {times} for guards that are not about size"
        place = (context.place(one.code),) if one.code else ()
        yield Item(title, place, (*(Words(text) for text in one.texts), Words(f"compile {ids(one.compiles)}")))
    if guards.dynamic:
        rows = tuple((it.source, it.sizes, str(it.compile)) for it in guards.dynamic[:_ROWS])
        yield Item("Tensors with open sizes (None: any size)", blocks=(Table(("source", "sizes", "compile"), rows),))
    if guards.shapes:
        yield Item("Guards on sizes", blocks=(_table(context, guards.shapes),))
    if any(it.latency_us for it in guards.costly):
        costs = tuple((str(it.compile), f"{it.latency_us:.0f} µs", str(it.guards)) for it in guards.costly)
        yield Item("The slowest to check", blocks=(Table(("compile", "time", "guards"), costs),))
    if guards.groups:
        yield Item("All other guards, the most frequent first", blocks=(_table(context, guards.groups),))
    if guards.left_out:
        yield Item(f"… and {counted(guards.left_out, 'check')} more, which were not told apart")


def _table(context: Context, groups: Sequence[GuardGroup]) -> Table:
    rows = [(str(group.count), group.kind, _check(group), context.place(group.where)) for group in groups[:_ROWS]]
    if len(groups) > _ROWS:
        rows.append((f"… {len(groups) - _ROWS} more", "", "", ""))
    return Table(("compiles", "kind", "check", "line"), tuple(rows))


def _check(group: GuardGroup) -> str:
    """What is checked; the source alone where the kind says the rest."""
    text = group.text if group.kind in _SAYING or not group.source else group.source
    return text if len(text) <= _CHECK else f"{text[: _CHECK - 1]}…"
