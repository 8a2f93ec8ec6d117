"""What lies next to the result: every single removal, and the nearest program that passes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.program import Program, TensorInput, render, size
from repro_kit.program.edits import Bypass, Edit, Outputs, Remove, SetInput, apply, resize
from repro_kit.program.resize import sizes_of
from repro_kit.reduce.keep import keep
from repro_kit.reduce.passes.settings import reset, special
from repro_kit.reduce.passes.statements import alike
from repro_kit.reduce.search import Search, key_of

_MOST = 40  # removals that are looked at; beyond, too much is left to call the result minimal
_MOST_TWINS = 10  # further programs that are tried in search of one that passes
_FIXED = ("load", "tensor", "view")  # data whose dtype the line does not choose
_OTHER_DTYPE = {
    None: "torch.float64",
    "torch.float64": None,
    "torch.int64": "torch.int32",
    "torch.int32": "torch.int64",
}


@dataclass(frozen=True)
class Removal:
    """One thing less, and what became of the failure. `outcome` None: there is no such program."""

    what: str
    outcome: RunOutcome | None
    note: str = ""
    equivalent: bool = False  # the failure shows in another form

    @property
    def keeps_the_failure(self) -> bool:
        """Whether the failure is still there without it, in whatever form, or nobody can tell."""
        return self.equivalent or self.outcome in (RunOutcome.FAILS_ALIKE, RunOutcome.CANNOT_TELL)


@dataclass(frozen=True)
class Twin:
    """A program that passes, one edit away from the result: it tells what matters."""

    what: str
    program: Program


@dataclass(frozen=True)
class Neighbours:
    """The result's neighbours, as far as they were looked at."""

    removals: tuple[Removal, ...] = ()
    complete: bool = False  # every single removal was looked at
    twin: Twin | None = None

    @property
    def minimal(self) -> bool:
        """Whether the result is 1-minimal: no single removal fails alike, in whatever form, or could not be judged."""
        return self.complete and not any(removal.keeps_the_failure for removal in self.removals)


def removals(search: Search) -> Iterator[tuple[str, Sequence[Edit] | None]]:
    """Every single removal from the search's program: (in words, edits)."""
    base, live = search.base, set(search.live)
    for unit in search.units():
        line = base.statements[unit[0]].substitute(search.names).line
        yield f"without `{line}`", keep(search, live.difference(unit))
        target = base.statements[unit[0]].target
        for name in base.reads[unit[0]]:
            operand = search.names.get(name, name)
            if target is not None and alike(search, target, operand):
                yield f"`{operand}` in place of `{line}`", [Bypass({target: operand})]
    for group in base.states:
        if live.issuperset(group):
            line = base.statements[group[0]].line
            yield f"without `{line}`", [Remove(frozenset(group))]
    if len(search.outputs) > 1:
        for name in search.outputs:
            yield f"not returning `{name}`", [Outputs(tuple(output for output in search.outputs if output != name))]


def look_around(search: Search) -> Iterator[Neighbours]:
    """What is known of the neighbours, more with each step, so that a limit costs no more than the rest."""
    found: list[Removal] = []
    passing: list[Twin] = []
    proposals = list(removals(search))
    for what, edits in proposals[:_MOST]:
        program = apply(search.base, [*edits], search.metadata, search.plan) if edits else None
        removal = _judged(search, what, program)
        found.append(removal)
        if removal.outcome is RunOutcome.PASSES and program is not None and size(program):
            passing.append(Twin(what, program))  # that a program which computes nothing passes, tells nothing
        yield Neighbours(tuple(found), twin=_nearest(search.program, passing))
    complete = len(proposals) <= _MOST
    nearest = _nearest(search.program, passing)
    text = render(search.program, footer=False)
    for what, program in _by_distance(text, _tweaks(search))[:_MOST_TWINS]:
        if nearest is not None and _distance_to(text, nearest.program) <= _distance_to(text, program):
            break  # all that follow are further away
        yield Neighbours(tuple(found), complete, nearest)
        if _judged(search, what, program).outcome is RunOutcome.PASSES:
            nearest = Twin(what, program)
    yield Neighbours(tuple(found), complete, nearest)


def _by_distance(text: str, tweaks: Iterable[tuple[str, Program | None]]) -> list[tuple[str, Program]]:
    made = [(what, program) for what, program in tweaks if program is not None]
    return sorted(made, key=lambda it: _distance_to(text, it[1]))


def _distance_to(text: str, program: Program) -> int:
    return distance(text, render(program, footer=False))


def _judged(search: Search, what: str, program: Program | None) -> Removal:
    if program is None or program == search.program:
        return Removal(what, None)
    (answer,) = search.ask([program], [key_of(render(program, footer=False))])
    note = answer.note if answer.outcome is not RunOutcome.PASSES else ""
    return Removal(what, answer.outcome, note, answer.equivalent)


def _tweaks(search: Search) -> Iterator[tuple[str, Program | None]]:
    """Programs of the same size in which one property is another one: a setting, a dtype, a shape, a layout."""
    program = search.program
    for edit in reset(special(search)):
        yield f"{edit.field} at its default", _with(search, [edit])
    tensors = [input_ for input_ in program.inputs if isinstance(input_, TensorInput)]
    for line in tensors:
        if line.data.kind not in _FIXED:
            other = _other_dtype(line)
            words = f"{other or 'the default dtype'} for {line.name}"
            yield words, _with(search, [SetInput(line.name, {"dtype": other})])
        if line.requires_grad:
            change = {"requires_grad": False, "parameter": False}
            yield f"{line.name} without gradient", _with(search, [SetInput(line.name, change)])
    floats = [tensor for tensor in tensors if tensor.dtype is None and tensor.data.kind in ("randn", "rand")]
    if len(floats) > 1:
        every: list[Edit] = [SetInput(float_.name, {"dtype": "torch.float64"}) for float_ in floats]
        yield "torch.float64 for all inputs", _with(search, every)
    for old in sizes_of(program):
        for new in (old - 1, old + 1):
            if new > 0:
                yield f"size {new} for {old}", _with(search, [resize({old: new}, code=True)])
    if any(it == 1 for line in tensors for it in line.data.sizes or ()):
        yield "size 2 for 1", _with(search, [resize({1: 2}, code=False)])


def _other_dtype(line: TensorInput) -> str | None:
    """The default dtype (None), or of inputs that have it the one next to it."""
    if line.dtype is not None:
        return None
    return "torch.int32" if line.data.kind in ("randint", "arange") else "torch.float64"


def _with(search: Search, edits: Sequence[Edit]) -> Program | None:
    return apply(search.base, edits, search.metadata, search.plan)


def _nearest(program: Program, passing: Sequence[Twin]) -> Twin | None:
    """The one whose text differs least."""
    text = render(program, footer=False)
    return min(passing, key=lambda it: _distance_to(text, it.program), default=None)


def distance(one: str, other: str) -> int:
    """Characters that are not common to the two texts (by their longest matching blocks, `difflib`)."""
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return len(one) + len(other) - 2 * sum(block.size for block in matcher.get_matching_blocks())
