"""Make inputs plain: plain values, no strides or gradients, small shapes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from repro_kit.graph import Data, DynamicMark, OpaqueInput, Program, TensorInput
from repro_kit.graph.edits import (
    Edit,
    generate_values,
    options_of,
    record_of,
    resize,
    rewrite,
    set_input,
    set_values,
    stored_inputs,
)
from repro_kit.graph.inputs import ZERO_TENSOR, DataKind, Input, parse_input
from repro_kit.graph.names import renamed
from repro_kit.graph.passes.recipe_settings import one_thread, reset, special
from repro_kit.graph.reading.input_lines import MODES
from repro_kit.graph.search import Proposal, Search
from repro_kit.graph.sizes import flat, is_resizable, numbers_in, sizes_of, with_sizes, without_dimension
from repro_kit.graph.values import TensorRecord, constants, generated, is_contiguous, plainer, plainest
from repro_kit.reduce.proposing import EXACT, each, is_round, narrow, powers_of_ten, rebasing, round_numbers, sweep

_CHOSEN = ("randn", "rand", "zeros", "ones", "full", "randint", "randperm", "arange")  # in a dtype of choice
_FLOATS: tuple[DataKind, ...] = ("randn", "rand", "ones", "zeros")
_FEW = 6  # inputs whose values are made plain one at a time


def generate(search: Search) -> None:
    """Replace stored values by ones, else by random ones, so that the repro needs no user data."""
    if search.first([_generated(search) + ones(search)]) is not None:
        return
    stored = {line.name: record for line, record in stored_inputs(search.program, search.metadata)}
    sweep(search, list(stored), lambda names: _sum(generate_values(name, stored[name]) for name in names))
    left = list(stored_inputs(search.program, search.metadata))
    each(search, ((set_values(line.name, record, data) for data in _further(record)) for line, record in left))


def _sum(edits: Iterable[Edit]) -> Edit:
    return sum(edits, Edit())


def ones(search: Search) -> Edit:
    """The values of every input as ones, or as zeros where they are whole numbers."""
    return Edit(inputs={line.name: (plainest,) for line in _tensors(search)})


def plain_values(search: Search) -> None:
    """Replace random values by plainer ones: of all inputs at once, then of one at a time."""
    forms = {line.name: forms for line in _tensors(search) if (forms := _plainer_values(search, line))}
    most = max(map(len, forms.values()), default=0)
    search.first(_sum(forms_of[min(at, len(forms_of) - 1)] for forms_of in forms.values()) for at in range(most))
    if 1 < len(forms) <= _FEW:
        each(search, forms.values())


def _plainer_values(search: Search, line: TensorInput) -> list[Edit]:
    forms = plainer(line, record_of(search.program, search.metadata, line.name))
    return [set_input(line.name, data=form.data, dtype=form.dtype) for form in forms]


def without_specialties(search: Search, *, gradients: bool = False) -> Edit:
    """Random values at least for every input, and none of the properties that most failures do not need.

    With `gradients`, inputs that have a gradient keep it.
    """
    dropped = [plain for plain in _PLAIN if not (gradients and plain is _without_gradient)]
    edits = (plain(search, line) for line in _tensors(search) for plain in dropped)
    return _generated(search) + _sum(edit for edit in edits if edit is not None)


def _generated(search: Search) -> Edit:
    return _sum(generate_values(line.name, record) for line, record in stored_inputs(search.program, search.metadata))


def _further(record: TensorRecord) -> Iterator[Data]:
    """Other ways to generate values, for when the likeliest one does not fail alike."""
    if "float" in record.dtype or "complex" in record.dtype:
        yield from (Data(kind, record.shape) for kind in _FLOATS)
    else:
        yield Data("zeros", record.shape)
        yield Data("ones", record.shape)
        if record.dtype != "torch.bool":
            yield Data("arange", record.shape)
    yield from constants(record)


def plain_inputs(search: Search) -> None:
    """Drop strides, aliasing, bits, gradients and parameter marks wherever the failure allows it."""
    for plain in _PLAIN:

        def propose(names: Sequence[str], plain: _Plain = plain) -> Proposal:
            edits = [plain(search, line) for line in _tensors(search) if line.name in names]
            return _sum(edit for edit in edits if edit is not None)

        sweep(search, [line.name for line in _tensors(search) if plain(search, line)], propose)


def dtypes(search: Search) -> None:
    """Give generated inputs the default dtype."""
    special = [tensor.name for tensor in _tensors(search) if tensor.dtype is not None and _has_default(tensor)]
    sweep(search, special, lambda names: _sum(set_input(name, dtype=None) for name in names))


def _has_default(line: TensorInput) -> bool:
    """Whether the line chooses its dtype, and may leave that to the default; floats in order would become integers."""
    return line.data.kind in _CHOSEN and (line.data.kind != "arange" or "int" in (line.dtype or ""))


_Plain = Callable[[Search, TensorInput], Edit | None]


def _tensors(search: Search) -> list[TensorInput]:
    return [line for line in search.program.inputs if isinstance(line, TensorInput)]


def _contiguous(search: Search, line: TensorInput) -> Edit | None:
    record = record_of(search.program, search.metadata, line.name)
    strided, whole = line.strided, line.data.sizes
    if strided is not None and strided.shape == whole and is_contiguous(whole, strided.stride):
        return set_input(line.name, strided=None)
    if (line.strided is None and line.base is None) or line.data.kind == "load" or record is None:
        return None
    dtype, device = options_of(record)
    return set_input(line.name, data=generated(record, record.shape), strided=None, dtype=dtype, device=device)


def _without_bits(_: Search, line: TensorInput) -> Edit | None:
    if line.data.kind == ZERO_TENSOR:
        return set_input(line.name, data=replace(line.data, kind="zeros"))
    return set_input(line.name, bits=()) if line.bits else None


def _without_gradient(_: Search, line: TensorInput) -> Edit | None:
    return set_input(line.name, requires_grad=False, parameter=False) if line.requires_grad else None


def _without_parameter(_: Search, line: TensorInput) -> Edit | None:
    return set_input(line.name, parameter=False) if line.parameter else None


def _without_buffer(_: Search, line: TensorInput) -> Edit | None:
    return set_input(line.name, buffer=False) if line.buffer else None


@rebasing
def relations(search: Search) -> None:
    """Make plain what only autograd knows of inputs: in which mode a view was made, and what is a copy."""
    related = [line.names[0] for line in search.program.inputs if isinstance(line, OpaqueInput) and _unrelated(line)]
    sweep(search, related, lambda names: rewrite(partial(_without_relations, names=frozenset(names)), tidy=False))


def _without_relations(program: Program, names: frozenset[str]) -> Program:
    """`program` with plain lines for the inputs `names`; a line that would only name another input again goes."""
    lines, same = list[Input](), dict[str, str]()
    for line in program.inputs:
        plain = _unrelated(line) if isinstance(line, OpaqueInput) and line.names[0] in names else None
        if isinstance(line, OpaqueInput) and isinstance(plain, str):
            same[line.names[0]] = same.get(plain, plain)
        else:
            lines.append(plain if isinstance(plain, TensorInput) else line)
    return renamed(program.with_(inputs=tuple(lines)), same)


def _unrelated(line: OpaqueInput) -> TensorInput | str | None:
    """The line of `reading/input_lines.py` as a plain one, or the name of the input that it copies; None for others.

    A mode is called as a decorator: ``torch.no_grad()(base.as_strided)((2,), (1,))``.
    """
    statement = ast.parse(line.text).body[0]
    match statement:
        case ast.Assign(value=ast.Call(func=ast.Call(func=ast.Call() as mode, args=[function]), args=args)) if (
            ast.unparse(mode) in MODES.values()
        ):
            value = ast.Call(function, args, [])
        case ast.Assign(value=ast.Call() as value):
            pass
        case _:
            return None
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="clone"), args=[ast.Name(id=copied)]):
            return copied
        case ast.Call(func=ast.Attribute(value=ast.Name(id=copied), attr="clone"), args=[]):
            return copied
    plain = parse_input(ast.copy_location(ast.Assign(statement.targets, value), statement))
    return plain if isinstance(plain, TensorInput) else None


_PLAIN: tuple[_Plain, ...] = (_contiguous, _without_bits, _without_gradient, _without_parameter, _without_buffer)


Place = tuple[str, int]  # (input, dimension)
_MOST = 16  # places whose sizes are changed one at a time


@rebasing
def shapes(search: Search) -> None:
    """Make all inputs one element, or all sizes 1 or 2. Then make each size smaller, and drop dimensions of size 1.

    A size becomes 1, 2, a round number, half or, up to `EXACT`, the least that fails alike, and its multiples with it;
    then so in one dimension of all inputs, and of one input. Nothing is done while values are stored: their sizes are
    fixed.
    """
    if search.program.stored:
        return
    search.first(_all_at_once(search), fake=True)
    for size in sizes_of(search.program):
        shrink(search, size, partial(_one_size, search))
    for places in _places(search.program):
        size = _size(search.program, places[0])
        if size > 1 and all(_size(search.program, place) == size for place in places):
            shrink(search, size, partial(_in_places, places))
    while search.first(_fewer_dimensions(search.program), fake=True) is not None:
        pass


def shrink(search: Search, size: int, propose: Callable[[int, int], Iterator[Proposal]]) -> None:
    """Make a number smaller, as long as that fails alike: the least that does up to `EXACT`, and above it a round one.

    `propose`: (old number, new number) -> edits.
    """
    while size > EXACT:
        new = _taken(search, size, (1, 2, size // 2), propose)
        if new is None and is_round(size):
            return
        if new is not None and new <= EXACT:
            size = new
            break
        asked = search.queries
        low, size = _rounded(search, 2 if new else size // 2, new or size, propose)
        if low >= size // 2 and (new is None or search.queries > asked):
            break
    while 1 < size <= EXACT:
        # With a memory limit, do not go to the very edge of it: that edge differs between machines.
        least = () if search.program.recipe.memory else (size - 1,)
        new = _taken(search, size, dict.fromkeys((1, 2, size // 2, *least)), propose)
        if new is None:
            return
        if size > 3 and new == size - 1:
            narrow(search, size // 2, new, propose, fake=True)
            return
        size = new


def _taken(
    search: Search, size: int, numbers: Iterable[int], propose: Callable[[int, int], Iterator[Proposal]]
) -> int | None:
    """The first of `numbers` below `size` that fails alike in its place."""
    tries = [(new, proposal) for new in numbers if new < size for proposal in propose(size, new)]
    won = search.first((proposal for _, proposal in tries), fake=True)
    return None if won is None else tries[won][0]


def _rounded(search: Search, low: int, high: int, propose: Callable[[int, int], Iterator[Proposal]]) -> tuple[int, int]:
    """The least round number above `low` that fails alike in place of `high`, and what counts as passing below it."""
    low, high = _between(search, [low, *powers_of_ten(low, high), high], propose)
    if high > EXACT:
        low, high = _between(search, [low, *round_numbers(low, high), high], propose)
    if low & (low - 1) == 0 and high > max(low + 1, EXACT) and not search.program.recipe.memory:
        high = _taken(search, high, (low + 1,), propose) or high  # a limit is often a power of two
    return low, high


def _between(
    search: Search, numbers: Sequence[int], propose: Callable[[int, int], Iterator[Proposal]]
) -> tuple[int, int]:
    """The neighbours among the rising `numbers` of which the first counts as passing, and the second fails alike."""
    border = narrow(search, 0, len(numbers) - 1, lambda bad, at: propose(numbers[bad], numbers[at]), fake=True)
    return numbers[border.good], numbers[border.bad]


def _all_at_once(search: Search) -> Iterator[Proposal]:
    yield rewrite(flat, tidy=False)
    sizes = sizes_of(search.program)
    for new in (1, 2):
        yield from _both(tuple((size, new) for size in sizes if size > new))


def _one_size(search: Search, size: int, new: int) -> Iterator[Proposal]:
    factors = [number // size for number in numbers_in(search.program) if number > 0 and number % size == 0]
    yield from _both(tuple((size * factor, new * factor) for factor in sorted(factors)))


def _both(sizes: tuple[tuple[int, int], ...]) -> Iterator[Proposal]:
    """Resize in the code too, then in the inputs only: a number in the code may mean something else."""
    if sizes:
        yield resize(dict(sizes), code=True)
        yield resize(dict(sizes), code=False)


def _in_places(places: tuple[Place, ...], _: int, new: int) -> Iterator[Proposal]:
    yield rewrite(partial(with_sizes, sizes=dict.fromkeys(places, new)), tidy=False)


def _places(program: Program) -> list[tuple[Place, ...]]:
    """Dimensions above 1 that change together: the same one of all inputs with that size; then each one alone."""
    all_places = [
        (axis, size, line.name)
        for line in program.inputs
        if is_resizable(line)
        for axis, size in enumerate(line.data.sizes or ())
        if size > 1
    ]
    if len(all_places) > _MOST:
        return []
    groups = [list(group) for _, group in groupby(sorted(all_places), key=lambda place: place[:2])]
    together = [tuple((name, axis) for axis, _, name in group) for group in groups]
    return [*together, *(((name, axis),) for axis, _, name in all_places if len(all_places) > 1)]


def _size(program: Program, place: Place) -> int:
    """The size at the place; 0 if it is gone."""
    lines = {line.name: line.data.sizes or () for line in program.inputs if is_resizable(line)}
    name, axis = place
    return lines[name][axis] if axis < len(lines.get(name, ())) else 0


def _fewer_dimensions(program: Program) -> Iterator[Proposal]:
    """Without the first dimension of all inputs where it is 1, then without one dimension of 1 of one input."""
    shapes = {line.name: line.data.sizes or () for line in program.inputs if is_resizable(line)}
    places = [(name, axis) for name, shape in shapes.items() if len(shape) > 1 for axis in range(len(shape))]
    ones = [(name, axis) for name, axis in places if shapes[name][axis] == 1]
    first = frozenset((name, axis) for name, axis in ones if axis == 0)
    for dropped in (first, *(frozenset({place}) for place in ones)):
        if dropped:
            yield rewrite(partial(without_dimension, places=dropped), tidy=False)


def plain(search: Search) -> None:
    """Contiguous inputs of a single one, no gradients, and default settings; if this passes, fewer such changes.

    A program with a backward keeps its gradients here: other passes have tried, or try, to do without a backward.
    """
    marks = any(isinstance(input_, DynamicMark) for input_ in search.program.inputs)
    backward = search.program.recipe.backward != "none"
    inputs = without_specialties(search, gradients=backward) + Edit(marks=not marks)
    names = [name for name in special(search) if name != "backward"]
    # The failure needs an entry of a dict (config, options, env) more often than any other setting.
    single = [name for name in names if not isinstance(getattr(search.program.recipe, name), dict)]
    wide = [inputs + reset(names), inputs + reset(single)]
    summed = Edit(recipe={"backward": "sum"} if backward else {})
    all_at_once = inputs + ones(search) + reset(names) + one_thread(search) + summed
    fewer = [all_at_once, *(edit + one_thread(search) for edit in wide), *wide, inputs, reset(names)]
    if search.first([all_at_once + rewrite(flat, tidy=False), *fewer], fake=True) == 0:
        search.rebase()
