"""Cut a set of statements out of the current program, alive on both sides."""

from __future__ import annotations

from collections.abc import Iterable

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
    kept = wanted | _state(search, wanted)
    gone = live - kept
    outputs = _outputs(search, kept, gone)
    return [Remove(frozenset(gone)), Outputs(outputs)] if outputs and gone else None


def _state(search: Search, kept: set[int]) -> set[int]:
    """State-setting statements in force at `kept`; a group that only surrounds nothing of it goes."""
    if not kept:
        return set()
    low, high = min(kept), max(kept)
    live = set(search.live)
    return {at for group in search.base.states if group[0] < high and group[-1] > low for at in group if at in live}


def _outputs(search: Search, kept: set[int], gone: set[int]) -> tuple[str, ...]:
    base = search.base
    names = search.names
    read_by_gone = {names.get(name, name) for at in gone for name in base.reads[at]}
    returned = dict.fromkeys(search.outputs)
    defined = [base.statements[at].target or "" for at in sorted(kept)]
    state = {at for group in base.states for at in group}
    values = [name for name in defined if name and base.index[name] not in state and not _is_scalar(search, name)]
    found = [name for name in values if name in read_by_gone or name in returned]
    found += [name for name in returned if name in base.params]
    if not found or all(name in base.params for name in found):
        read_by_kept = {names.get(name, name) for at in kept for name in base.reads[at]}
        found += [name for name in values if name not in read_by_kept]
        found += [name for at in sorted(kept) for name in base.effects[at].mutates if name not in base.params]
    return tuple(dict.fromkeys(found))


def _is_scalar(search: Search, name: str) -> bool:
    return isinstance(search.metadata.get(name), ScalarRecord)
