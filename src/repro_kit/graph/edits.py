"""Edits of a program, and the program that they make: from the outputs backwards, without dead code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from repro_kit.graph.effects import Base
from repro_kit.graph.inputs import Data, DynamicMark, Input, TensorInput, names_of
from repro_kit.graph.program import Function, Program, reached, tuple_of
from repro_kit.graph.sizes import resized
from repro_kit.graph.values import Metadata, TensorRecord, generated, input_for, is_contiguous, span


@dataclass(frozen=True)
class Edit:
    """A change of a base program, which itself stays as it is. Edits add up: ``first + second`` makes both.

    `removed`: statements of the graph (by index) to drop; their values become inputs where they are still needed.
    `bypass`: values (of a statement or an input), each with the earlier value that is read instead. `outputs`: the
    values to return, as a flat tuple. `inputs`: changes of the lines of inputs, in order. `recipe`: fields to set.
    `marks`: whether ``mark_dynamic`` and similar marks stay. `calls`: the calls to make, by position. `rewrites`: made
    of the program of all the rest, in order; the base's metadata may not hold after one.
    """

    removed: frozenset[int] = frozenset()
    bypass: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = None
    inputs: Mapping[str, tuple[Callable[[TensorInput], TensorInput], ...]] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    marks: bool = True
    calls: tuple[int, ...] | None = None
    preamble: str | None = None
    imports: tuple[str, ...] | None = None
    rewrites: tuple[Callable[[Program], Program | None], ...] = ()

    def __add__(self, other: Edit) -> Edit:
        changed = {name: (*self.inputs.get(name, ()), *changes) for name, changes in other.inputs.items()}
        return Edit(
            self.removed | other.removed,
            {**self.bypass, **other.bypass},
            self.outputs if other.outputs is None else other.outputs,
            {**self.inputs, **changed},
            {**self.recipe, **other.recipe},
            self.marks and other.marks,
            self.calls if other.calls is None else other.calls,
            self.preamble if other.preamble is None else other.preamble,
            self.imports if other.imports is None else other.imports,
            (*self.rewrites, *other.rewrites),
        )


@dataclass(frozen=True)
class Built:
    """The program that an edit makes, and the statements of the base's graph that it contains."""

    program: Program
    live: tuple[int, ...]
    names: Mapping[str, str]  # bypassed name of the base -> the name that replaces it


def rebuild(base: Base, edit: Edit, metadata: Metadata) -> Built | None:
    """`base` with `edit`, without dead pure statements, unused inputs and unused bodies.

    None if a new input has no usable metadata, or a rewrite is impossible.
    """
    gone = edit.removed | {base.index[name] for name in edit.bypass if name in base.index}
    reach = _reached(base, gone, base.outputs if edit.outputs is None else edit.outputs, edit.bypass)
    fresh = [base.statements[at].target or "" for at in sorted(reach.missing)]
    made = {name: input_for(_free(name, base.taken), metadata.get(name)) for name in fresh}
    if any(line is None for line in made.values()):
        return None
    new = {name: line for name, line in made.items() if line is not None}
    params = (*(parameter for parameter in base.program.graph.params if parameter in reach.needed), *new)
    graph = _graph(base, edit, reach, params)
    inputs, calls = _calls(base, edit, reach.needed, new)
    program = base.program
    made_of = Program(
        graph=graph,
        bodies=reached(program.bodies, graph),
        inputs=inputs,
        calls=calls,
        recipe=program.recipe.with_(**edit.recipe) if edit.recipe else program.recipe,
        imports=program.imports if edit.imports is None else edit.imports,
        preamble=program.preamble if edit.preamble is None else edit.preamble,
        doc=program.doc,
        peer=program.peer,
    )
    for rewrite in edit.rewrites:
        rewritten = rewrite(made_of)
        if rewritten is None:
            return None
        made_of = rewritten
    return Built(made_of, tuple(reach.live), reach.names)


@dataclass(frozen=True)
class _Reached:
    """The statements and values that the outputs need."""

    live: list[int]  # statements, in order
    needed: set[str]  # names that they and the outputs read
    missing: list[int]  # removed statements whose values are read
    changed: set[int]  # statements that read another name than in the base
    names: dict[str, str]  # name in the base -> name read instead


def _reached(
    base: Base, gone: frozenset[int] | set[int], outputs: Sequence[str], bypass: Mapping[str, str]
) -> _Reached:
    """Go backwards from the outputs.

    A statement with an effect on state is always needed. A mutation is needed only while a value that may share its
    memory is read later, or when the memory is an input's (the caller sees it).
    """
    reach = _Reached([], set(), [], set(), {})
    needed, index, wanted = reach.needed, base.index, bytearray(len(base.statements))
    for at in base.effective - gone:
        wanted[at] = True
    at, reads = len(wanted), outputs
    while at >= 0:
        for name in reads:
            read = name
            if name in bypass:
                read = _resolved(name, bypass, reach.names)
                reach.changed.add(at)
            if read not in needed:
                needed.add(read)
                made_at = index.get(read)
                if made_at is not None and made_at in gone:
                    reach.missing.append(made_at)
                elif made_at is not None:
                    wanted[made_at] = True
        at = wanted.rfind(True, 0, at)
        while at in base.effective and not _matters(base, at, needed):
            at = wanted.rfind(True, 0, at)
        if at >= 0:
            reach.live.append(at)
            reads = base.reads[at]
    reach.live.reverse()
    return reach


def _resolved(name: str, bypass: Mapping[str, str], names: dict[str, str]) -> str:
    """The name that replaces `name`, after all bypasses; stored in `names` when it differs."""
    chain = []
    while name in bypass and name not in names:
        chain.append(name)
        name = bypass[name]
    last = names.get(name, name)
    names.update(dict.fromkeys(chain, last))
    return last


def _matters(base: Base, at: int, needed: set[str]) -> bool:
    effects = base.effects[at]
    if effects.state or base.statements[at].target in needed:
        return True
    return any(_seen(base.families[name], needed, base) for name in effects.mutates)


def _seen(family: frozenset[str], needed: set[str], base: Base) -> bool:
    return not needed.isdisjoint(family) or not base.params.isdisjoint(family)


def _graph(base: Base, edit: Edit, reached: _Reached, params: tuple[str, ...]) -> Function:
    function, names = base.program.graph, reached.names
    as_is, changed = base.statements, reached.changed
    statements = tuple(as_is[at].substitute(names) if at in changed else as_is[at] for at in reached.live)
    if edit.outputs is None:
        returns = function.returns.substitute(names)
    else:
        kept = tuple(dict.fromkeys(names.get(name, name) for name in edit.outputs))
        returns = tuple_of(kept)
    return Function(function.name, params, statements, returns)


def _calls(
    base: Base, edit: Edit, needed: set[str], new: Mapping[str, Input]
) -> tuple[tuple[Input, ...], tuple[tuple[str, ...], ...]]:
    program = base.program
    kept = [at for at, param in enumerate(program.graph.params) if param in needed]
    further = [name for line in new.values() for name in names_of(line)]
    made = program.calls if edit.calls is None else [program.calls[at] for at in edit.calls]
    calls = tuple((*(call[at] for at in kept), *further) for call in made)
    wanted: set[str] = set()
    queue = [name for call in calls for name in call if name in base.line_of]
    while queue:
        name = queue.pop()
        if name not in wanted:
            wanted.add(name)
            queue += [read for read in _changed(base.line_of[name], edit).reads if read in base.line_of]
    lines = []
    for line in program.inputs:
        bound = names_of(line)
        stays = (
            edit.marks and _about(line, base) <= wanted
            if isinstance(line, DynamicMark)
            else bool(wanted.intersection(bound))
        )
        if stays:
            lines.append(_changed(line, edit))
    return (*lines, *(_changed(line, edit) for line in new.values())), calls


def _about(line: Input, base: Base) -> set[str]:
    return {name for name in line.reads if name in base.line_of}


def _changed(line: Input, edit: Edit) -> Input:
    if isinstance(line, TensorInput):
        for change in edit.inputs.get(line.name, ()):
            line = change(line)
    return line


def _free(name: str, taken: frozenset[str]) -> str:
    while name in taken:
        name += "_in"
    return name


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


def stored_inputs(program: Program, metadata: Metadata) -> Iterator[tuple[TensorInput, TensorRecord]]:
    """Inputs with stored values, each with the metadata of the stored tensor. `metadata`: by the names in `graph`."""
    lines = [line for line in program.inputs if isinstance(line, TensorInput)]
    for line in lines:
        if line.data.kind not in ("load", "tensor"):
            continue
        record = record_of(program, metadata, line.name)
        if record is None:
            views = [
                (view, record_of(program, metadata, view.name))
                for view in lines
                if view.base == line.name and view.strided
            ]
            ends = [view.offset + span(view.shape or (), view.stride or ()) for view, _ in views]
            view_record = next((candidate for _, candidate in views if candidate is not None), None)
            record = replace(view_record, shape=(max(ends),), stride=(1,)) if view_record is not None else None
        if record is None:
            record = _of_results(program, metadata, line.name)
        if record is None:
            continue
        if line.strided is not None:
            shape, stride = line.strided.shape, line.strided.stride
            plain = not line.offset and is_contiguous(shape, stride)
            record = replace(record, shape=shape if plain else (line.offset + span(shape, stride),), stride=(1,))
        yield line, record


def generate_values(name: str, record: TensorRecord) -> Edit:
    """The edit that gives the input `name` generated values like those of `record`."""
    return set_values(name, record, generated(record, record.shape))


def set_values(name: str, record: TensorRecord, data: Data) -> Edit:
    """The edit that gives the input `name`, so far with the stored tensor of `record`, the values of `data`."""
    dtype, device = options_of(record)

    def change(line: TensorInput) -> TensorInput:
        return replace(line, data=data, dtype=line.dtype or dtype, device=line.device or device)

    return Edit(inputs={name: (change,)})


def options_of(record: TensorRecord) -> tuple[str | None, str | None]:
    """The dtype and the device that the line of a generated tensor needs; None: the default."""
    return (
        None if record.dtype == "torch.float32" else record.dtype,
        None if record.device == "cpu" else record.device,
    )


def _of_results(program: Program, metadata: Metadata, name: str) -> TensorRecord | None:
    """The metadata of the first argument that is made of the input `name`, through other inputs; None without one.

    A copy (``x = x_start.clone()``) has the shape of the input; the line of any other input states a shape.
    """
    made = [name]
    for line in program.inputs:
        if set(line.reads) & set(made):
            made += names_of(line)
    return next((record for argument in made if (record := record_of(program, metadata, argument)) is not None), None)


def record_of(program: Program, metadata: Metadata, argument: str) -> TensorRecord | None:
    """The metadata of the parameter that `argument` is passed to; None when it is not known to be a tensor."""
    for call in program.calls:
        for param, name in zip(program.graph.params, call, strict=True):
            record = metadata.get(param)
            if name == argument and isinstance(record, TensorRecord):
                return record
    return None
