"""Cut a set of statements out of the current program, alive on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from repro_kit.program.edits import Edit, Outputs, Remove
from repro_kit.program.values import ScalarRecord
from repro_kit.reduce.search import Search


def keep(search: Search, statements: Iterable[int]) -> list[Edit] | None:
    """Edits that keep only `statements` (and the state they run in); None when nothing would be left to return.

    What they read from others becomes an input; what others read of them, an output, so that no culprit dies with its
    reader (XLA's hlo_bisect cuts like this).
    """
    live = set(search.live)
    wanted = live.intersection(statements)
    kept = sorted(wanted | _state(search, wanted, live))
    gone = live.difference(kept)
    if not gone:
        return None
    outputs = _outputs(search, kept, gone)
    return [Remove(frozenset(gone)), Outputs(outputs)] if outputs else None


def _state(search: Search, kept: set[int], live: set[int]) -> set[int]:
    """State-setting statements in force at `kept`; a group that only surrounds nothing of it goes."""
    if not kept or not search.base.states:
        return set()
    low, high = min(kept), max(kept)
    return {at for group in search.base.states if group[0] < high and group[-1] > low for at in group if at in live}


def _outputs(search: Search, kept: Sequence[int], gone: set[int]) -> tuple[str, ...]:
    base = search.base
    returned = dict.fromkeys(search.outputs)
    asked_for = _read(search, gone).union(returned)
    defined = [base.statements[at].target or "" for at in kept]
    found = [name for name in defined if name in asked_for and _is_value(search, name)]
    found += [name for name in returned if name in base.params]
    if not found or all(name in base.params for name in found):
        read_by_kept = _read(search, kept)
        found += [name for name in defined if name not in read_by_kept and _is_value(search, name)]
        found += [name for at in kept for name in base.effects[at].mutates if name not in base.params]
    return tuple(dict.fromkeys(found))


def _read(search: Search, statements: Iterable[int]) -> set[str]:
    """Names that statements read, as they stand now."""
    read = set(chain.from_iterable(search.base.reads[at] for at in statements))
    return {search.names.get(name, name) for name in read}


def _is_value(search: Search, name: str) -> bool:
    """Whether a graph can return `name`: not a number, nor the handle of a state."""
    at = search.base.index.get(name)
    state = at is None or search.base.effects[at].state
    return not state and not isinstance(search.metadata.get(name), ScalarRecord)
