"""The neighbours of the result: every single removal, and the nearest variant that passes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.program import Program, TensorInput, render, size
from repro_kit.program.program_edits import resize, set_input
from repro_kit.program.rebuild import Edit
from repro_kit.reduce.deciding import deciding_number, passes_with_other_values
from repro_kit.reduce.keep import keep
from repro_kit.reduce.passes.recipe_settings import reset, special
from repro_kit.reduce.passes.statements import alike
from repro_kit.reduce.result import DecidingNumber, Neighbours, Removal, Twin, judged
from repro_kit.reduce.search_state import Proposal, Search

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
        yield f"without `{line}`", keep(search, live.difference(unit))
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
    passing: list[Twin[Program]] = []
    proposals = list(removals(search))
    for description, edit in proposals[:_MOST]:
        program = search.made_by(edit) if edit else None
        removal = judged(search, description, program)
        removals_judged.append(removal)
        if removal.outcome is RunOutcome.PASSES and program is not None and size(program):
            passing.append(Twin(description, program))  # a variant that computes nothing would prove nothing
        yield Neighbours(tuple(removals_judged), twin=_nearest(search.program, passing))
    complete = len(proposals) <= _MOST
    number: DecidingNumber | None = None
    for number, program in deciding_number(search):
        yield Neighbours(tuple(removals_judged), complete, Twin(number.change, program), number)
    if number is not None:
        return
    nearest = _nearest(search.program, passing)
    text = render(search.program)
    variants: list[Removal] = []
    for description, program in _by_distance(text, _tweaks(search))[:_MOST_TWINS]:
        if nearest is not None and _distance_to(text, nearest.program) <= _distance_to(text, program):
            break  # all later variants differ more
        yield Neighbours(tuple(removals_judged), complete, nearest, variants=tuple(variants))
        variant = judged(search, description, program)
        if variant.outcome is RunOutcome.PASSES and not passes_with_other_values(search, program):
            continue  # it says something of the values, and not of what was changed
        variants.append(variant)
        if variant.outcome is RunOutcome.PASSES:
            nearest = Twin(description, program)
    yield Neighbours(tuple(removals_judged), complete, nearest, variants=tuple(variants))


def _by_distance(text: str, tweaks: Iterable[tuple[str, Program | None]]) -> list[tuple[str, Program]]:
    made = [(description, program) for description, program in tweaks if program is not None]
    return sorted(made, key=lambda tweak: _distance_to(text, tweak[1]))


def _distance_to(text: str, program: Program) -> int:
    return distance(text, render(program))


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
            other = _other_dtype(line)
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


def _other_dtype(line: TensorInput) -> str | None:
    """The default dtype (None); for an input that has the default already, its usual alternative."""
    if line.dtype is not None:
        return None
    return "torch.int32" if line.data.kind in ("randint", "arange") else "torch.float64"


def _nearest(program: Program, passing: Sequence[Twin[Program]]) -> Twin[Program] | None:
    """The variant whose text differs least from the program's."""
    text = render(program)
    return min(passing, key=lambda twin: _distance_to(text, twin.program), default=None)


def distance(text: str, other_text: str) -> int:
    """The number of characters that the two texts do not share (longest matching blocks, `difflib`)."""
    matcher = difflib.SequenceMatcher(None, text, other_text, autojunk=False)
    return len(text) + len(other_text) - 2 * sum(block.size for block in matcher.get_matching_blocks())
