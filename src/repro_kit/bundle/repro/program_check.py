"""Write `check.py` for a plain `repro.py`: it runs `repro.py`, and answers by its exit status."""

from __future__ import annotations

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.repro.expected_output import pattern, raw
from repro_kit.model.failure.failure import Kind
from repro_kit.model.recipe import Recipe
from repro_kit.program import recipe_code
from repro_kit.program.entry_code import is_entry
from repro_kit.program.plain import PlainScript

#: Seconds after which a hanging child counts as hanging; a small program compiles in a few seconds.
HANG = 30
WAITING = 60  # the same for ranks that wait for each other: each of them starts torch
LIMIT = 300  # the same for a child that should crash: a busy machine is slow

#: The end of a traceback of `assert_close`: a compiler's own AssertionError is another failure.
_DIFFERS = r"\bin assert_close\n(?: .*\n)*AssertionError: "


def program_check(script: PlainScript, recipe: Recipe, facts: Facts) -> str:
    """The text of `check.py` for a plain script."""
    kind, raised = facts.signature.kind, facts.failure.exceptions if facts.failure else ()
    words = f"{raised[-1].type}: {raised[-1].message}" if raised else "an exception"
    lost = recipe_code.literal(f"FAIL validation: the compiled graph returns, eager raises {words}")
    return render(
        "check.py.j2",
        expected=raw(_DIFFERS if kind is Kind.ACCURACY else pattern(facts)),
        eager_line=script.eager_line,
        compiled_line=script.compiled_line,
        limit=HANG if kind.policy.hangs else LIMIT,
        eager="before" if is_entry(recipe) else "forced" if recipe.fullgraph else "",
        hangs=kind.policy.hangs,
        crashes=kind is Kind.CRASH,
        accuracy=kind is Kind.ACCURACY,
        validation=lost if kind.policy.eager_raises else "",
    )
