"""Make all inputs and settings plain at once: most failures need few of the original ones."""

from __future__ import annotations

from repro_kit.program import DynamicMark
from repro_kit.program.program_edits import rewrite
from repro_kit.program.rebuild import Edit
from repro_kit.program.resize import flat
from repro_kit.reduce.passes.input_values import ones, without_specialties
from repro_kit.reduce.passes.recipe_settings import one_thread, reset, special
from repro_kit.reduce.search_state import Search


def plain(search: Search) -> None:
    """Contiguous inputs of a single one, no gradients, and default settings; if this passes, fewer such changes."""
    marks = any(isinstance(input_, DynamicMark) for input_ in search.program.inputs)
    inputs = without_specialties(search) + Edit(marks=not marks)
    names = special(search)
    # The failure needs an entry of a dict (config, options, env) more often than any other setting.
    single = [name for name in names if not isinstance(getattr(search.program.recipe, name), dict)]
    wide = [inputs + reset(names), inputs + reset(single)]
    all_at_once = inputs + ones(search) + reset(names) + one_thread(search)
    fewer = [all_at_once, *(edit + one_thread(search) for edit in wide), *wide, inputs, reset(names)]
    if search.first([all_at_once + rewrite(flat, tidy=False), *fewer], fake=True) == 0:
        search.rebase()
