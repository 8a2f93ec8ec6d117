"""Keep a set of statements of the current program, and cut off the rest on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from repro_kit.program.rebuild import Edit
from repro_kit.program.value_records import ScalarRecord
from repro_kit.reduce.search_state import Search


def keep(search: Search, statements: Iterable[int]) -> Edit | None:
    """The edit that keeps only `statements`, with the state that they run in; None when nothing would be returned.

    A value that they read from other statements becomes an input. A value that other statements read becomes an output,
    so that no statement dies with its reader (XLA's hlo_bisect cuts in the same way).
    """
    live = set(search.live)
    wanted = live.intersection(statements)
    kept = sorted(wanted | _state(search, wanted, live))
    gone = live.difference(kept)
    if not gone:
        return None
    outputs = _outputs(search, kept, gone)
    return Edit(removed=frozenset(gone), outputs=outputs) if outputs else None


def _state(search: Search, kept: set[int], live: set[int]) -> set[int]:
    """State-setting statements in force at `kept`. A group that encloses none of `kept` is dropped."""
    if not kept or not search.base.states:
        return set()
    low, high = min(kept), max(kept)
    return {at for group in search.base.states if group[0] < high and group[-1] > low for at in group if at in live}


def _outputs(search: Search, kept: Sequence[int], gone: set[int]) -> tuple[str, ...]:
    base = search.base
    returned = dict.fromkeys(search.outputs)
    asked_for = _read(search, gone).union(returned)
    defined = [base.statements[at].target or "" for at in kept]
    outputs = [name for name in defined if name in asked_for and _is_value(search, name)]
    outputs += [name for name in returned if name in base.params]
    if not outputs or all(name in base.params for name in outputs):
        read_by_kept = _read(search, kept)
        outputs += [name for name in defined if name not in read_by_kept and _is_value(search, name)]
        outputs += [name for at in kept for name in base.effects[at].mutates if name not in base.params]
    return tuple(dict.fromkeys(outputs))


def _read(search: Search, statements: Iterable[int]) -> set[str]:
    """The names that `statements` read, after bypasses."""
    read = set(chain.from_iterable(search.base.reads[at] for at in statements))
    return {search.names.get(name, name) for name in read}


def _is_value(search: Search, name: str) -> bool:
    """Whether a graph can return `name`: it is a tensor, not a number or the handle of a state."""
    at = search.base.index.get(name)
    state = at is None or search.base.effects[at].state
    return not state and not isinstance(search.metadata.get(name), ScalarRecord)
