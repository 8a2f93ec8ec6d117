"""Make the program of a plan: from the outputs backwards, so that nothing dead is ever in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repro_kit.program.analysis import Base
from repro_kit.program.inputs import Input, Mark, TensorInput, names_of
from repro_kit.program.program import Function, Program
from repro_kit.program.statement import Statement
from repro_kit.program.values import Metadata, input_for


@dataclass(frozen=True)
class Plan:
    """What is to change in a base program; the sum of edits (see edits.py)."""

    removed: frozenset[int] = frozenset()  # statements of the graph
    inputs: frozenset[str] = frozenset()  # values that become inputs
    bypass: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = None
    lines: Mapping[str, tuple[Callable[[TensorInput], TensorInput], ...]] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    marks: bool = True
    calls: tuple[int, ...] | None = None
    preamble: str | None = None
    imports: tuple[str, ...] | None = None
    rewrites: tuple[Callable[[Program], Program | None], ...] = ()  # of what the rest makes, in order


@dataclass(frozen=True)
class Built:
    """A program, and which statements of the base's graph are in it."""

    program: Program
    live: tuple[int, ...]


def rebuild(base: Base, plan: Plan, metadata: Metadata) -> Built | None:
    """The program of `plan`; None when it needs an input of which nothing usable was recorded."""
    names = resolved(plan.bypass)
    gone = plan.removed | {base.index[it] for it in (*plan.inputs, *plan.bypass) if it in base.index}
    outputs = base.outputs if plan.outputs is None else plan.outputs
    live, needed = _live(base, gone, [names.get(name, name) for name in outputs], names)
    made_at = sorted(base.index[name] for name in needed if name not in base.params)
    fresh = [base.statements[at].target or "" for at in made_at if at in gone]
    made = {name: input_for(_free(name, base.taken), metadata.get(name)) for name in fresh}
    if any(line is None for line in made.values()):
        return None
    new = {name: line for name, line in made.items() if line is not None}
    graph = _graph(base, plan, names, live, (*(it for it in base.program.graph.params if it in needed), *new))
    inputs, calls = _calls(base, plan, needed, new)
    program = base.program
    made_of = Program(
        graph=graph,
        bodies=reached(program.bodies, graph),
        inputs=inputs,
        calls=calls,
        recipe=program.recipe.with_(**plan.recipe) if plan.recipe else program.recipe,
        imports=program.imports if plan.imports is None else plan.imports,
        preamble=program.preamble if plan.preamble is None else plan.preamble,
        doc=program.doc,
    )
    for rewrite in plan.rewrites:
        rewritten = rewrite(made_of)
        if rewritten is None:
            return None
        made_of = rewritten
    return Built(made_of, tuple(live))


def resolved(bypass: Mapping[str, str]) -> dict[str, str]:
    """Bypasses of bypassed operands followed to the end."""
    found: dict[str, str] = {}
    for name in bypass:
        chain, last = [name], bypass[name]
        while last in bypass and last not in found:
            chain.append(last)
            last = bypass[last]
        last = found.get(last, last)
        found.update(dict.fromkeys(chain, last))
    return found


def _live(
    base: Base, gone: frozenset[int] | set[int], outputs: Sequence[str], names: Mapping[str, str]
) -> tuple[list[int], set[str]]:
    """Statements that matter for `outputs`, in order, and every name that they and the outputs read.

    A statement for its effect matters; a mutation only while something that may share the memory is read later, or the
    memory is that of an input (the caller sees it).
    """
    needed = set(outputs)
    live = []
    for at in range(len(base.statements) - 1, -1, -1):
        if at in gone:
            continue
        target, effects = base.statements[at].target, base.effects[at]
        matters = effects.state or (target is not None and target in needed)
        if not matters and effects.mutates:
            matters = any(_seen(base.families[name], needed, base) for name in effects.mutates)
        if matters:
            live.append(at)
            needed.update(names.get(name, name) for name in base.reads[at])
    live.reverse()
    return live, needed


def _seen(family: frozenset[str], needed: set[str], base: Base) -> bool:
    return not needed.isdisjoint(family) or not base.params.isdisjoint(family)


def _graph(base: Base, plan: Plan, names: Mapping[str, str], live: Sequence[int], params: tuple[str, ...]) -> Function:
    function = base.program.graph
    statements = tuple(base.statements[at].substitute(names) if names else base.statements[at] for at in live)
    if plan.outputs is None:
        returns = function.returns.substitute(names)
    else:
        kept = tuple(dict.fromkeys(names.get(name, name) for name in plan.outputs))
        returns = Statement(None, f"({', '.join(kept)}{',' if len(kept) == 1 else ''})")
    return Function(function.name, params, statements, returns)


def reached(bodies: Sequence[Function], graph: Function) -> tuple[Function, ...]:
    """Bodies that the graph still reaches, in their order."""
    if not bodies:
        return ()
    known = {body.name: body for body in bodies}
    found: set[str] = set()
    queue = [graph]
    while queue:
        function = queue.pop()
        fresh = {name for it in function.statements for name in it.reads if name in known} - found
        found |= fresh
        queue += [known[name] for name in fresh]
    return tuple(body for body in bodies if body.name in found)


def _calls(
    base: Base, plan: Plan, needed: set[str], new: Mapping[str, Input]
) -> tuple[tuple[Input, ...], tuple[tuple[str, ...], ...]]:
    program = base.program
    kept = [at for at, param in enumerate(program.graph.params) if param in needed]
    further = [name for line in new.values() for name in names_of(line)]
    made = program.calls if plan.calls is None else [program.calls[at] for at in plan.calls]
    calls = tuple((*(call[at] for at in kept), *further) for call in made)
    wanted: set[str] = set()
    queue = [name for call in calls for name in call if name in base.line_of]
    while queue:
        name = queue.pop()
        if name not in wanted:
            wanted.add(name)
            queue += [it for it in _changed(base.line_of[name], plan).reads if it in base.line_of]
    lines = []
    for line in program.inputs:
        bound = names_of(line)
        stays = (
            plan.marks and _about(line, base) <= wanted if isinstance(line, Mark) else bool(wanted.intersection(bound))
        )
        if stays:
            lines.append(_changed(line, plan))
    return (*lines, *(_changed(line, plan) for line in new.values())), calls


def _about(line: Input, base: Base) -> set[str]:
    return {name for name in line.reads if name in base.line_of}


def _changed(line: Input, plan: Plan) -> Input:
    if isinstance(line, TensorInput):
        for change in plan.lines.get(line.name, ()):
            line = change(line)
    return line


def _free(name: str, taken: frozenset[str]) -> str:
    while name in taken:
        name += "_in"
    return name
