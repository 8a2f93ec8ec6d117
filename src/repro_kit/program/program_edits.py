"""Common edits of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from repro_kit.program.analysis import Base
from repro_kit.program.program import Program
from repro_kit.program.rebuild import Edit, rebuild
from repro_kit.program.resize import resized
from repro_kit.program.value_records import Metadata


def set_input(name: str, **changes: Any) -> Edit:
    """Change fields of an input (`requires_grad`, `strided`, …)."""
    return Edit(inputs={name: (partial(replace, **changes),)})


def rewrite(change: Callable[[Program], Program | None], *, tidy: bool = True) -> Edit:
    """Replace the program that the edits before this one make by `change` of it; None: it cannot be changed.

    `tidy`: without what is dead then. A search that accepts it must use it as its new base.
    """
    return Edit(rewrites=(partial(_tidied, change) if tidy else change,))


def _tidied(change: Callable[[Program], Program | None], program: Program) -> Program | None:
    changed = change(program)
    return None if changed is None else apply(changed, Edit(), {})


def resize(sizes: Mapping[int, int], *, code: bool) -> Edit:
    """Replace numbers in the sizes of inputs; with `code`, in statements too."""
    return rewrite(partial(resized, sizes=sizes, code=code), tidy=False)


def apply(base: Program | Base, edit: Edit, metadata: Metadata) -> Program | None:
    """`base` with `edit`; see `rebuild`."""
    built = rebuild(base if isinstance(base, Base) else Base(base), edit, metadata)
    return built.program if built is not None else None
