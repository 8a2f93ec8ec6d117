"""Give the result of a reduction short names, in everything that is said of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from repro_kit.program.plain_names import plain_names, renamed, renamed_in_words
from repro_kit.program.program import Program
from repro_kit.reduce.result import Result


def with_plain_names(result: Result[Program], known: Collection[str]) -> Result[Program]:
    """`result` with short names for inputs and values. `known`: names that the user may have given, which may stay."""
    names = plain_names(result.program, known)
    if not names:
        return result
    around = result.neighbours
    twin, number = around.twin, around.number
    return replace(
        result,
        program=renamed(result.program, names),
        neighbours=replace(
            around,
            removals=tuple(replace(each, what=renamed_in_words(each.what, names)) for each in around.removals),
            variants=tuple(replace(each, what=renamed_in_words(each.what, names)) for each in around.variants),
            twin=twin and replace(twin, what=renamed_in_words(twin.what, names), program=renamed(twin.program, names)),
            number=number and replace(number, what=renamed_in_words(number.what, names)),
        ),
    )
