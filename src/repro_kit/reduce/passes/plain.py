"""All plainer inputs and settings at once: most failures need nothing of what they were found with."""

from __future__ import annotations

from repro_kit.reduce.passes.settings import defaults
from repro_kit.reduce.passes.values import plainest
from repro_kit.reduce.search import Search


def plain(search: Search) -> None:
    """Generated, contiguous inputs without gradients, and the default recipe; then each of the two alone."""
    inputs, recipe = plainest(search), defaults(search)
    search.first([[*inputs, *recipe], inputs, recipe])
