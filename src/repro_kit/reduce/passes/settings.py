"""A plainer recipe: no setting, call, import or definition that the failure does not need."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import fields

from repro_kit.model.recipe import Recipe
from repro_kit.program import Mark
from repro_kit.program.edits import Calls, DropMarks, Edit, Preamble, SetRecipe
from repro_kit.reduce.adaptive import sweep
from repro_kit.reduce.search import Proposal, Search

_DEFAULT = Recipe()
#: Fields that say how the failure is judged, or what it is about, rather than what it needs.
_KEPT = ("backend", "seed", "check", "rtol", "atol", "graph_caches")


def narrow(search: Search) -> None:
    """What makes every later query cheaper: forward only, fewer calls, static shapes."""
    calls(search)
    for name in ("backward", "dynamic", "autocast"):
        _default(search, name)


def calls(search: Search) -> None:
    """Make fewer calls: one alone if that does."""
    made = range(len(search.base.program.calls)) if search.plan.calls is None else search.plan.calls
    if len(made) < 2:
        return
    if search.first([Calls((at,))] for at in made) is not None:
        return

    def propose(dropped: list[int]) -> Proposal:
        left = tuple(at for at in (search.plan.calls or made) if at not in dropped)
        return [Calls(left)] if left else None

    sweep(search, list(made), propose)  # type: ignore[arg-type]


def recipe(search: Search) -> None:
    """Every setting back to its default, entries of dicts (options, config, environment) one by one."""
    for name in ("config", "options", "env"):
        _entries(search, name)
    for field in fields(Recipe):
        if field.name not in _KEPT:
            _default(search, field.name)


def marks(search: Search) -> None:
    """No marks of dynamic dimensions."""
    if any(isinstance(it, Mark) for it in search.program.inputs):
        search.first([[DropMarks()]])


def _default(search: Search, name: str) -> None:
    default = getattr(_DEFAULT, name)
    if getattr(search.program.recipe, name) != default:
        search.first([[SetRecipe(name, default)]])


def _entries(search: Search, name: str) -> None:
    def propose(dropped: Sequence[str]) -> Proposal:
        left = {key: value for key, value in getattr(search.program.recipe, name).items() if key not in dropped}
        return [SetRecipe(name, left)]

    sweep(search, list(getattr(search.program.recipe, name)), propose)


def preamble(search: Search) -> None:
    """Definitions and imports before the graph that the failure does not need."""
    program = search.program
    pieces = [*program.imports, *_pieces(program.preamble)]
    imports = set(program.imports)

    def propose(dropped: Sequence[str]) -> list[Edit]:
        now = [it for it in (*search.program.imports, *_pieces(search.program.preamble)) if it not in dropped]
        text = "\n\n\n".join(it for it in now if it not in imports)
        return [Preamble(text, tuple(it for it in now if it in imports))]

    sweep(search, pieces, propose)


def _pieces(text: str) -> list[str]:
    """Top-level statements of the preamble, with their decorators."""
    lines = text.split("\n")
    nodes = ast.parse(text).body
    starts = [min([it.lineno, *(d.lineno for d in getattr(it, "decorator_list", []))]) - 1 for it in nodes]
    return ["\n".join(lines[start : node.end_lineno]) for start, node in zip(starts, nodes, strict=True)]
