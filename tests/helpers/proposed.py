"""What proposals make of a script, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from repro_kit.script import Script
from repro_kit.script.proposals.expressions import simpler
from repro_kit.script.proposals.structure import unwrapped
from repro_kit.script.tree import Edits, NumberedTree


def texts(propose: Callable[[NumberedTree], Iterable[Edits]], source: str) -> list[str]:
    """The script after each proposal that gives a program."""
    numbered = NumberedTree(Script(source))
    programs = [numbered.edited(edits) for edits in propose(numbered)]
    return [program.text.strip() for program in programs if program is not None]


def _each(passes: Callable[..., Iterable[list[Edits]]], numbered: NumberedTree) -> Iterable[Edits]:
    return [edits for alternatives in passes(numbered, {}) for edits in alternatives]


#: The same for proposals that come as alternatives for each place, without recorded values.
unwrapped_texts = partial(texts, partial(_each, unwrapped))
simpler_texts = partial(texts, partial(_each, simpler))
