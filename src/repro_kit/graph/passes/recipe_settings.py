"""Make the recipe plain: drop each setting, call, import or definition that the failure does not need."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial

from repro_kit.graph import DynamicMark, Program
from repro_kit.graph.edits import Edit, rewrite
from repro_kit.graph.placement import with_ranks
from repro_kit.graph.program_text import PRIMS, PRIMS_IMPORT
from repro_kit.graph.python_code import bound_names, joined, reads_of, text_of
from repro_kit.graph.search import Proposal, Search
from repro_kit.probe.repro_probe.protocol.recipe_data import FAKE
from repro_kit.recipe import Recipe
from repro_kit.reduce.proposing import sweep

_DEFAULT = Recipe()
#: Fields that say how a run is judged, or what the failure is about.
_KEPT = ("backend", "seed", "check", "validation", "growth", "rtol", "atol", "graph_caches", "memory")
_DICTS = ("options", "env", "config")


def narrow(search: Search) -> None:
    """Changes that make every later query cheaper: forward only, fewer calls, static shapes."""
    calls(search)
    for name in ("backward", "dynamic", "autocast", "warm_caches"):
        _default(search, name)


def calls(search: Search) -> None:
    """Make fewer calls, a single one if possible. Where another call is the first then, its values are recorded."""
    _fewer_calls(search)
    if search.edit.calls and search.edit.calls[0] != 0:
        search.rebase()


def _fewer_calls(search: Search) -> None:
    made = range(len(search.base.program.calls)) if search.edit.calls is None else search.edit.calls
    if len(made) < 2:
        return
    if search.first(Edit(calls=(at,)) for at in made) is not None:
        return

    def propose(dropped: Sequence[int]) -> Proposal:
        left = tuple(at for at in (search.edit.calls or made) if at not in dropped)
        return Edit(calls=left) if left else None

    sweep(search, list(made), propose)


def recipe(search: Search) -> None:
    """Reset every setting to its default, and drop every entry of options, config, environment and contexts."""
    threads(search)
    group(search)
    sweep(search, special(search), reset)
    if search.program.recipe.backward == "randn":
        search.first([Edit(recipe={"backward": "sum"})])
    for name in (*_DICTS, "contexts"):
        _entries(search, name)


def group(search: Search) -> None:
    """No process group, else one process instead of one for each rank, and as few ranks as possible."""
    process_group = search.program.recipe.group
    if process_group is None:
        return
    if search.program.peer is not None:
        search.first([rewrite(_without_peer)])
    if search.program.peer is not None:  # the ranks must differ, so they are real
        search.first(rewrite(partial(with_ranks, size=size)) for size in range(2, process_group.size))
        search.rebase()
        return
    if search.first([reset(["group"])]) is not None:
        return
    if not process_group.is_fake:
        search.first([Edit(recipe={"group": replace(process_group, backend=FAKE)})])
    search.first(rewrite(partial(with_ranks, size=size)) for size in range(1, process_group.size))
    search.rebase()


def _without_peer(program: Program) -> Program | None:
    group = program.recipe.group
    recipe = program.recipe.with_(group=group and replace(group, others=()))
    return program.with_(recipe=recipe, peer=None)


def threads(search: Search) -> None:
    """One thread. If the failure needs more, the number stays: torch's default differs between machines."""
    search.first([one_thread(search)])


def one_thread(search: Search) -> Edit:
    """One thread, if the recipe says another number."""
    return Edit(recipe={"threads": 1} if search.program.recipe.threads not in (None, 1) else {})


def reset(names: Sequence[str]) -> Edit:
    """The default for these settings."""
    return Edit(recipe={name: getattr(_DEFAULT, name) for name in names})


def special(search: Search) -> list[str]:
    """The settings that are not at their default, dicts last."""
    recipe = search.program.recipe
    names = [field.name for field in fields(Recipe) if field.name not in (*_KEPT, *_DICTS)]
    kept = ("group", "threads") if recipe.threads != 1 else ("group",)
    return [name for name in (*names, *_DICTS) if getattr(recipe, name) != getattr(_DEFAULT, name) and name not in kept]


def marks(search: Search) -> None:
    """Drop the marks of dynamic dimensions."""
    if any(isinstance(input_, DynamicMark) for input_ in search.program.inputs):
        search.first([Edit(marks=False)])


def _default(search: Search, name: str) -> None:
    if getattr(search.program.recipe, name) != getattr(_DEFAULT, name):
        search.first([reset([name])])


def _entries(search: Search, name: str) -> None:
    def propose(dropped: Sequence[str]) -> Proposal:
        entries = getattr(search.program.recipe, name)
        if isinstance(entries, tuple):
            return Edit(recipe={name: tuple(entry for entry in entries if entry not in dropped)})
        return Edit(recipe={name: {key: value for key, value in entries.items() if key not in dropped}})

    sweep(search, list(getattr(search.program.recipe, name)), propose)


def preamble(search: Search) -> None:
    """Drop definitions and imports before the graph."""
    pieces = [*search.program.imports, *_pieces(search.program.preamble)]

    def propose(dropped: Sequence[str]) -> Proposal:
        program = search.program
        if PRIMS_IMPORT in dropped and _names_prims(program):
            return None  # the process that judges has imported it, and a new one has not
        left = [piece for piece in (*program.imports, *_pieces(program.preamble)) if piece not in dropped]
        bound = _bound(dropped) - _bound(left) - {"torch"}
        if bound & (_used_by_program(program) | {name for piece in left for name in reads_of(piece)}):
            return None  # it would only fail with a NameError
        imports = tuple(piece for piece in left if piece in program.imports)
        return Edit(preamble=joined(piece for piece in left if piece not in program.imports), imports=imports)

    sweep(search, pieces, propose)


def _pieces(text: str) -> list[str]:
    """Top-level statements of the preamble, with their decorators."""
    return [text_of(text, node) for node in ast.parse(text).body]


def _bound(pieces: Sequence[str]) -> set[str]:
    return bound_names(*(node for piece in pieces for node in ast.parse(piece).body))


def _names_prims(program: Program) -> bool:
    return any(PRIMS in statement.text for function in program.all_functions() for statement in function.statements)


def _used_by_program(program: Program) -> set[str]:
    statements = [
        statement for function in program.all_functions() for statement in (*function.statements, function.returns)
    ]
    names = {name for reader in (*statements, *program.all_inputs()) for name in reader.reads}
    return names.union({program.recipe.backend}, *map(reads_of, program.recipe.contexts))
