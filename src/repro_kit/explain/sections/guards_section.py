"""The section on guards: the checks before compiled code runs, the compiles they separate, and their cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from repro_kit.explain.context import Context, compiled_name, counted, ids
from repro_kit.explain.view import Item, Section, Table, Words
from repro_kit.trace.guard_text import Guard
from repro_kit.trace.insights.guards import GuardGroup, Guards

_MOST_GUARDS = 40
_SAYING = (Guard.VALUE, Guard.SIZE, Guard.STRIDE, Guard.PRESENCE)  # kinds whose check says more than its source
_CHECK = 90  # characters of a guard


def guards_section(context: Context) -> Section:
    """Differing guards first, then shapes, costs, and all others."""
    guards = context.insights.guards
    if not guards.total and not guards.groups:
        return Section("guards", "Guards", "none in this trace")
    return Section("guards", "Guards", counted(guards.total, "guard"), tuple(_guard_items(context, guards)))


def _guard_items(context: Context, guards: Guards) -> Iterator[Item]:
    for differing in guards.differing:
        times = f"compiled {len(differing.compiles)} times"
        title = f"{compiled_name(differing.name)}: the same graph, {times} because of guards that are not about sizes"
        places = (context.place(differing.code),) if differing.code else ()
        yield Item(
            title, places, (*(Words(text) for text in differing.texts), Words(f"compile {ids(differing.compiles)}"))
        )
    if guards.dynamic:
        rows = tuple((entry.source, entry.sizes, str(entry.compile)) for entry in guards.dynamic[:_MOST_GUARDS])
        yield Item("Tensors with dynamic sizes (None: any size)", blocks=(Table(("source", "sizes", "compile"), rows),))
    if guards.shapes:
        yield Item("Guards on sizes", blocks=(_guard_table(context, guards.shapes),))
    if any(entry.latency_us for entry in guards.costly):
        costs = tuple((str(entry.compile), f"{entry.latency_us:.0f} µs", str(entry.guards)) for entry in guards.costly)
        yield Item("The slowest to check", blocks=(Table(("compile", "time", "guards"), costs),))
    if guards.groups:
        yield Item("All other guards, the most frequent first", blocks=(_guard_table(context, guards.groups),))
    if guards.left_out:
        yield Item(f"… and {counted(guards.left_out, 'check')} more, which are not listed one by one")


def _guard_table(context: Context, groups: Sequence[GuardGroup]) -> Table:
    rows = [
        (str(group.count), group.kind, _check(group), context.place(group.where)) for group in groups[:_MOST_GUARDS]
    ]
    if len(groups) > _MOST_GUARDS:
        rows.append((f"… {len(groups) - _MOST_GUARDS} more", "", "", ""))
    return Table(("compiles", "kind", "check", "line"), tuple(rows))


def _check(group: GuardGroup) -> str:
    """The check; only its source if the kind says the rest."""
    text = group.text if group.kind in _SAYING or not group.source else group.source
    return text if len(text) <= _CHECK else f"{text[: _CHECK - 1]}…"
