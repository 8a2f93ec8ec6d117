"""All plainer inputs and settings at once: most failures need little of what they were found with."""

from __future__ import annotations

from repro_kit.program import DynamicMark
from repro_kit.program.edits import DropMarks, Edit
from repro_kit.reduce.passes.settings import one_thread, reset, special
from repro_kit.reduce.passes.values import plainest
from repro_kit.reduce.search import Search


def plain(search: Search) -> None:
    """Generated, contiguous inputs without gradients, and default settings; then less and less of that."""
    inputs: list[Edit] = [*plainest(search)]
    if any(isinstance(input_, DynamicMark) for input_ in search.program.inputs):
        inputs.append(DropMarks())
    names = special(search)
    # What a dict holds is more often what the failure needs than the other settings are.
    single = [name for name in names if not isinstance(getattr(search.program.recipe, name), dict)]
    wide = [[*inputs, *reset(names)], [*inputs, *reset(single)]]
    search.first([*([*it, *one_thread(search)] for it in wide), *wide, inputs, reset(names)])
