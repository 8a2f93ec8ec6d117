"""The neighbours of a reduced graph: single removals, the number that decides, and the nearest variant that passes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from repro_kit.failure.signature import RunOutcome
from repro_kit.graph import Program, TensorInput, render, size
from repro_kit.graph.edits import Edit, resize, set_input
from repro_kit.graph.passes.recipe_settings import reset, special
from repro_kit.graph.passes.statements import alike
from repro_kit.graph.search import Proposal, Search, restrict_to
from repro_kit.graph.sizes import Number, Spot, numbers, resized, sizes, sizes_of
from repro_kit.reduce.flaky import RUNS_BEFORE_DETERMINISTIC
from repro_kit.reduce.proposing import EXACT, powers_of_ten, round_numbers
from repro_kit.reduce.reduction import DecidingNumber, Neighbours, Removal, Twin, judged
from repro_kit.reduce.search import key_of

_MOST_TRIES = 10  # queries, answers that are known already not counted
_LOOKING = 7  # of them before some number passes
_LARGE = 4  # a number above it may be far from one that passes
_RANDOM = ("rand", "randn", "randint", "randperm", "softmax")  # kinds of data that depend on the seed


@dataclass(frozen=True)
class _Try:
    """Another value in one place of the result."""

    spot: Spot
    value: Number
    program: Program
    key: str


def deciding_number(search: Search) -> Iterator[tuple[DecidingNumber, Program]]:
    """The number that decides and the variant that passes, more closely each time; nothing if none is found."""
    last = search.queries + _MOST_TRIES
    spots = [spot for spot in numbers(search.program) if not spot.is_index]
    if not search.program.recipe.validation:  # with other sizes eager may raise for another reason
        spots += [*sizes(search.program), *_everywhere(search.program)]
    for values in (_less, _next, _far):  # a number that had to stay large tells most
        tries = [_try(spot, value) for value, spot in _in_turns(spots, values)]
        tries = _plausible(search, [*(_tried(search, spots) if values is _less else ()), *tries])
        passing = _first_passing(search, tries, last - _MOST_TRIES + _LOOKING)
        if passing is not None:
            yield from _narrowed(search, passing, last)
            return


def passes_with_other_values(search: Search, program: Program) -> bool:
    """Whether the program passes with other seeds too: a wrong result may need values that one seed does not give.

    That is asked of a variant with other sizes or dtypes, which computes the same and has other random numbers.
    """
    tensors = [line for line in program.inputs if isinstance(line, TensorInput)]
    if not program.recipe.check or not any(line.data.kind in _RANDOM for line in tensors):
        return True
    seeds = range(program.recipe.seed + 1, program.recipe.seed + RUNS_BEFORE_DETERMINISTIC)
    others = [program.with_(recipe=program.recipe.with_(seed=seed)) for seed in seeds]
    answers = search.ask(others, [_key(other) for other in others])
    return all(answer.outcome is RunOutcome.PASSES for answer in answers)


def _everywhere(program: Program) -> Iterator[Spot]:
    """Each size above 1, in all places at once."""
    for value in sizes_of(program):
        yield Spot(f"every size {value}", value, partial(_resized, program, value), is_size=True)


def _resized(program: Program, size: int, value: Number) -> Program:
    return resized(program, {size: int(value)}, code=True)


def _less(spot: Spot) -> list[Number]:
    """A number well below a large one; of one just above a power of two, that power."""
    if isinstance(spot.value, float) or spot.value <= EXACT:
        return []
    below = spot.value - 1
    return [spot.value // 2 if below & (below - 1) else below]


def _next(spot: Spot) -> list[Number]:
    """The next smaller and larger number; for one that is not whole, 1 and 0."""
    if isinstance(spot.value, float):
        return [1, 0]
    least = 1 if spot.is_size else 0
    return [value for value in (spot.value - 1, spot.value + 1) if value >= least]


def _far(spot: Spot) -> list[Number]:
    if isinstance(spot.value, float):
        return [spot.value / 2, spot.value * 2]
    below = [1, 100, spot.value // 2] if spot.value > _LARGE else []
    return [value for value in below if value not in _next(spot)]


def _tried(search: Search, spots: Sequence[Spot]) -> list[_Try]:
    """The round numbers that the search has tried in the places of large ones."""
    large = [spot for spot in spots if _less(spot) and _less(spot) != [spot.value - 1]]
    tries = [_try(spot, value) for spot in large for value in _round_below(int(spot.value))]
    return [each for each in tries if not search.is_new(each.key)]


def _round_below(value: int) -> list[int]:
    tens = powers_of_ten(2, value)
    return [*tens, *round_numbers(max([2, *tens]), value)]


def _in_turns(spots: Sequence[Spot], values: Callable[[Spot], list[Number]]) -> Iterator[tuple[Number, Spot]]:
    """The first value of every spot, then the second of every one, and so on."""
    each = [values(spot) for spot in spots]
    for at in range(max(map(len, each), default=0)):
        yield from ((others[at], spot) for others, spot in zip(each, spots, strict=True) if at < len(others))


def _try(spot: Spot, value: Number) -> _Try:
    program = spot.put(value)
    return _Try(spot, value, program, _key(program))


def _key(program: Program) -> str:
    return key_of(render(program))


def _plausible(search: Search, tries: Sequence[_Try]) -> list[_Try]:
    """Those that were judged already, the nearest first, then those that fake tensors do not show to be invalid."""
    judged = [each for each in tries if not search.is_new(each.key)]
    judged.sort(key=lambda each: abs(each.value - each.spot.value))
    fresh = [each for each in tries if search.is_new(each.key)]
    valid = search.oracle.fake_valid([each.program for each in fresh]) if fresh else ()
    return [*judged, *(each for each, fine in zip(fresh, valid, strict=True) if fine is not False)]


def _first_passing(search: Search, tries: Sequence[_Try], last: int) -> _Try | None:
    for each in tries:
        if search.is_new(each.key) and search.queries >= last:
            return None
        passes = _outcome(search, each) is RunOutcome.PASSES
        if passes and passes_with_other_values(search, each.program):
            return each
    return None


def _outcome(search: Search, each: _Try) -> RunOutcome:
    (answer,) = search.ask([each.program], [each.key])
    return answer.outcome


def _narrowed(search: Search, passing: _Try, last: int) -> Iterator[tuple[DecidingNumber, Program]]:
    """Bisect between the number that passes and the one of the result; of a large one, only its powers of ten."""
    spot = passing.spot
    found = DecidingNumber(spot.what, spot.value, passing.value)
    yield found, passing.program
    edge = spot.value
    while search.queries < last and (middle := _middle(found.passes, edge)) is not None:
        between = _try(spot, middle)
        outcome = _outcome(search, between)
        if outcome is RunOutcome.PASSES:
            found, passing = replace(found, passes=middle), between
        elif outcome is RunOutcome.FAILS_ALIKE:
            edge = middle
            found = replace(found, fails=edge, result=spot.value) if spot.value <= EXACT else found
        else:
            return
        yield found, passing.program
    beyond = _try(spot, 2 * found.fails - found.passes)
    if search.queries < last and abs(found.fails - found.passes) == 1 and beyond.value >= int(spot.is_size):
        yield replace(found, beyond=_outcome(search, beyond) is RunOutcome.FAILS_ALIKE), passing.program


def _middle(one: Number, other: Number) -> int | None:
    """A number between the two, a power of ten if they are large; None where there is none."""
    if isinstance(one, float) or isinstance(other, float):
        return None
    low, high = sorted((one, other))
    inside: Sequence[int] = range(low + 1, high) if high <= EXACT else powers_of_ten(low, high)
    return inside[len(inside) // 2] if inside else None


_MOST = 40  # removals to judge; a result with more is not called minimal
_MOST_TWINS = 10  # variants to try in search of one that passes
_SWITCHED_ON = ("autocast", "compiled_autograd", "fullgraph", "contexts", "memory")  # fields of a recipe
_FIXED = ("load", "tensor", "view")  # kinds of data whose dtype the input line cannot choose
_FLOATS = ("randn", "rand", "ones", "zeros")  # kinds of data that are floats by default


def removals(search: Search) -> Iterator[tuple[str, Proposal]]:
    """Every single removal from the search's program: (a description, the edit)."""
    base, live = search.base, set(search.live)
    for unit in search.units():
        line = base.statements[unit[0]].substitute(search.names).line
        yield f"without `{line}`", restrict_to(search, live.difference(unit))
        target = base.statements[unit[0]].target
        for name in base.reads[unit[0]]:
            operand = search.names.get(name, name)
            if target is not None and alike(search, target, operand):
                yield f"`{operand}` in place of `{line}`", Edit(bypass={target: operand})
    for group in base.states:
        if live.issuperset(group):
            line = base.statements[group[0]].line
            yield f"without `{line}`", Edit(removed=frozenset(group))
    if len(search.outputs) > 1:
        for name in search.outputs:
            left = tuple(output for output in search.outputs if output != name)
            yield f"not returning `{name}`", Edit(outputs=left)


def look_around(search: Search) -> Iterator[Neighbours[Program]]:
    """The neighbours judged so far, after each query, so that a limit loses only the rest."""
    removals_judged: list[Removal] = []
    text = render(search.program)
    passing: list[_Apart] = []
    proposals = list(removals(search))
    for description, edit in proposals[:_MOST]:
        program = search.made_by(edit) if edit else None
        removal = judged(search, description, program)
        removals_judged.append(removal)
        if removal.outcome is RunOutcome.PASSES and program is not None and size(program):
            passing.append(_apart(text, description, program))  # a variant that computes nothing would prove nothing
        yield Neighbours(tuple(removals_judged), twin=_twin(_nearest(passing)))
    complete = len(proposals) <= _MOST
    number: DecidingNumber | None = None
    for number, program in deciding_number(search):
        yield Neighbours(tuple(removals_judged), complete, Twin(number.change, program), number)
    if number is not None:
        return
    nearest = _nearest(passing)
    variants: list[Removal] = []
    tweaks = [_apart(text, description, program) for description, program in _tweaks(search) if program is not None]
    for tweak in sorted(tweaks, key=_by_distance)[:_MOST_TWINS]:
        if nearest is not None and nearest.distance <= tweak.distance:
            break  # all later variants differ more
        yield Neighbours(tuple(removals_judged), complete, _twin(nearest), variants=tuple(variants))
        program = tweak.twin.program
        variant = judged(search, tweak.twin.what, program)
        if variant.outcome is RunOutcome.PASSES and not passes_with_other_values(search, program):
            continue  # it says something of the values, and not of what was changed
        variants.append(variant)
        if variant.outcome is RunOutcome.PASSES:
            nearest = tweak
    yield Neighbours(tuple(removals_judged), complete, _twin(nearest), variants=tuple(variants))


@dataclass(frozen=True)
class _Apart:
    """A variant of the result, and by how many characters their texts differ."""

    distance: int
    twin: Twin[Program]


def _apart(text: str, description: str, program: Program) -> _Apart:
    return _Apart(distance(text, render(program)), Twin(description, program))


def _by_distance(variant: _Apart) -> int:
    return variant.distance


def _nearest(passing: Sequence[_Apart]) -> _Apart | None:
    """The variant whose text differs least from the program's."""
    return min(passing, key=_by_distance, default=None)


def _twin(variant: _Apart | None) -> Twin[Program] | None:
    return None if variant is None else variant.twin


def _tweaks(search: Search) -> Iterator[tuple[str, Program | None]]:
    """Variants of the same size that differ in one property: a setting, a dtype, a gradient, all sizes of 1."""
    program = search.program
    for name in special(search):
        if name != "backward":  # without the backward, a program whose backward fails passes, which shows nothing
            words = f"without {name}" if name in _SWITCHED_ON else f"{name} at its default"
            yield words.replace("_", " "), search.made_by(reset([name]))
    tensors = [input_ for input_ in program.inputs if isinstance(input_, TensorInput)]
    trained = [line for line in tensors if line.requires_grad]
    for line in tensors:
        if line.data.kind not in _FIXED:
            other = other_dtype(line)
            words = f"{other or 'the default dtype'} for `{line.name}`"
            yield words, search.made_by(set_input(line.name, dtype=other))
        if line.requires_grad and not (program.recipe.backward != "none" and len(trained) == 1):
            change = set_input(line.name, requires_grad=False, parameter=False)
            yield f"`{line.name}` without gradient", search.made_by(change)
    floats = [tensor for tensor in tensors if tensor.dtype is None and tensor.data.kind in _FLOATS]
    if len(floats) > 1:
        every = sum((set_input(line.name, dtype="torch.float64") for line in floats), Edit())
        yield "torch.float64 for all inputs", search.made_by(every)
    if any(extent == 1 for line in tensors for extent in line.data.sizes or ()):
        yield "size 2 for 1", search.made_by(resize({1: 2}, code=False))


def other_dtype(line: TensorInput) -> str | None:
    """The default dtype (None); for an input that has the default already, its usual alternative."""
    if line.dtype is not None:
        return None
    whole = line.data.kind in ("randint", "randperm", "arange") or (
        line.data.kind == "full" and isinstance(line.data.args[0], int)
    )
    return "torch.int32" if whole else "torch.float64"


def distance(text: str, other_text: str) -> int:
    """The number of characters that the two texts do not share (longest matching blocks, `difflib`)."""
    matcher = difflib.SequenceMatcher(None, text, other_text, autojunk=False)
    return len(text) + len(other_text) - 2 * sum(block.size for block in matcher.get_matching_blocks())
