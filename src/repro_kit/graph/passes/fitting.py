"""Remove a statement whose value has another shape than what takes its place, and fit the sizes of an input to that."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from repro_kit.graph import Program
from repro_kit.graph.edits import Edit, rewrite
from repro_kit.graph.search import Proposal, Search
from repro_kit.graph.sizes import is_resizable, with_sizes
from repro_kit.graph.values import TensorRecord

_MOST = 8  # units of a program that is small enough for so many proposals


def fitted(search: Search) -> None:
    """Replace a value by one of another shape that it was computed from; the sizes of an input may follow.

    Between two statements that the failure needs, a value of the same shape is often not at hand. Fake tensors decide
    what is valid. Nothing is done while values are stored: their sizes are fixed.
    """
    if search.program.stored or not 2 < len(search.units()) <= _MOST:
        return
    search.rebase()
    while search.first(_proposals(search), fake=True) is not None:
        search.rebase()


def _proposals(search: Search) -> Iterator[Proposal]:
    for at in reversed(search.live):
        target = search.base.statements[at].target
        for operand in dict.fromkeys(search.base.reads[at]):
            sizes = _other_sizes(search, target or "", operand)
            if target is not None and sizes is not None:
                bypass = Edit(bypass={target: operand})
                yield bypass
                yield from (bypass + fit for old, new in sizes for fit in _fits(search.program, old, new))


def _other_sizes(search: Search, value: str, other: str) -> list[tuple[int, int]] | None:
    """The sizes in which `value` and `other` differ, if it is these alone: per dimension, or of the last one."""
    mine, its = search.metadata.get(value), search.metadata.get(other)
    if not (isinstance(mine, TensorRecord) and isinstance(its, TensorRecord)):
        return None
    if (mine.dtype, mine.device) != (its.dtype, its.device) or mine.shape == its.shape:
        return None
    pairs = zip(mine.shape, its.shape, strict=True) if len(mine.shape) == len(its.shape) else ()
    last = zip(mine.shape[-1:], its.shape[-1:], strict=False)
    return [(old, new) for old, new in dict.fromkeys([*pairs, *last]) if old != new]


def _fits(program: Program, old: int, new: int) -> Iterator[Edit]:
    """Another size in each place of an input that has the `old` one."""
    for line in filter(is_resizable, program.inputs):
        for axis, size in enumerate(line.data.sizes or ()):
            if size == old:
                yield rewrite(partial(with_sizes, sizes={(line.name, axis): new}), tidy=False)
