"""The entry point: from a failing program to the smallest program that fails alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from repro_kit.graph import Program, TensorInput, render, size
from repro_kit.graph.edits import Edit
from repro_kit.graph.effects import Base
from repro_kit.graph.neighbours import look_around
from repro_kit.graph.passes import bodies, fitting, inputs, recipe_settings, statements, wording
from repro_kit.graph.passes.bodies import lists
from repro_kit.graph.passes.inputs import plain, shapes
from repro_kit.graph.passes.statements import guess
from repro_kit.graph.search import Oracle, Search
from repro_kit.reduce.reduction import CannotReduce, Neighbours, Result, carry_out, count_failed
from repro_kit.reduce.search import Answer, Event, Journal, SearchLimits, Stopped, key_of

_STRUCTURE = 0.75  # share of the deadline for the structure
_FEW = 12  # queries that still fail
_FINISH = 1 - _STRUCTURE  # share for making the best program self-contained, however late the structure ended

#: The passes in order. Each list is repeated until it makes no progress, then all lists are.
CUTS: tuple[Callable[[Search], None], ...] = (
    bodies.inline,
    bodies.levels,
    lists,
    statements.cut_end,
    statements.cut_start,
    statements.ends,
)
STRUCTURE: tuple[Callable[[Search], None], ...] = (
    bodies.inline,
    bodies.levels,
    statements.bypass,
    statements.to_input,
    statements.outputs,
    statements.effects,
    statements.merge_inputs,
    bodies.same_branches,
    bodies.inside,
    bodies.operands,
    lists,
    statements.pairs,
)
FINISH: tuple[Callable[[Search], None], ...] = (
    plain,
    inputs.generate,
    inputs.relations,
    inputs.plain_inputs,
    inputs.dtypes,
    shapes,
    fitting.fitted,
    inputs.plain_values,
    recipe_settings.marks,
    recipe_settings.recipe,
    recipe_settings.calls,
    wording.arguments,
    wording.numbers,
    wording.public_names,
    recipe_settings.preamble,
)


def minify(
    program: Program,
    oracle: Oracle,
    *,
    hints: Sequence[str] = (),
    before: Sequence[Answer] = (),
    journal: Journal | None = None,
    budget: int | None = None,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    on_event: Callable[[Event], None] = lambda event: None,
    at_result: Callable[[Program], None] = lambda program: None,
) -> Result[Program]:
    """The smallest program found that fails like `program`, according to `oracle`.

    The search is greedy: a candidate replaces the best program when it fails alike and is smaller (`search.measure`).
    At a fixpoint no pass makes progress; `Neighbours.minimal` says whether the result is 1-minimal.

    `hints`: operators, kernels or values that the failure names. `before`: answers that the oracle gave for `program`
    already; they count among its first runs. `journal`: with the journal of a killed search, no finished query is made
    again, and the result is the same. `budget` (queries) and `deadline` (seconds of `clock`) end the search early; the
    best program so far is the result. `at_result` gets it before its neighbours are looked at. After a deadline, stored
    values are still dropped from it. Raises CannotReduce when no first run of `program` fails alike, or when a program
    without compute fails alike too.
    """
    search = Search(
        Base(program),
        oracle,
        Journal() if journal is None else journal,
        SearchLimits(budget, deadline, clock),
        on_event,
        share=_STRUCTURE,
    )

    def find() -> None:
        _check_trivial(search)
        search.learn(oracle.record(program))
        _find(search, hints)

    def around() -> Iterator[Neighbours[Program]]:
        at_result(search.program)
        return look_around(search)

    return carry_out(
        search,
        partial(_reduce, search),
        around,
        find=find,
        before=before,
        at_deadline=partial(_finish, search),
    )


def _check_trivial(search: Search) -> None:
    """Check the oracle: a program that only returns an input must not fail alike, or the graph is not the cause."""
    trivial = _trivial(search)
    if trivial is None:
        return
    answers = list(search.ask([trivial], [key_of(render(trivial))]))
    if count_failed(answers):
        raise CannotReduce(
            "A graph that only returns its input fails alike: the failure does not depend on the graph.",
            trivial,
            answers,
        )


def _trivial(search: Search) -> Program | None:
    """The program without compute; None when the program has none, or has no tensor to return."""
    program = search.program
    tensors = {input_.name for input_ in program.inputs if isinstance(input_, TensorInput)}
    call = dict(zip(program.graph.params, program.calls[0], strict=True))
    param = next((parameter for parameter in program.graph.params if call[parameter] in tensors), None)
    if param is None or not size(program):
        return None
    everything = frozenset(range(len(program.graph.statements)))
    return search.made_by(Edit(removed=everything, outputs=(param,)))


def _find(search: Search, hints: Sequence[str]) -> None:
    """Grow from what the hints name, else look for a part that fails alone. Such a query takes less time than a later
    one of most of the program, and what is proposed next is small already.
    """
    if len(search.program.calls) > 1:  # the values of a later call may be the ones that count
        search.run(recipe_settings.calls)
    search.begin("guess")
    guess(search, hints)
    search.run(statements.parts)


def _reduce(search: Search) -> None:
    if _ends_soon(search):  # a hang that gets shorter looks more like a slow pass
        search.run(inputs.generate, plain)  # a repro.py with stored values is not self-contained
    search.run(recipe_settings.narrow, statements.tidy)
    _to_the_end(search)


def _ends_soon(search: Search) -> bool:
    """Whether the deadline allows a few steps only."""
    deadline = search.limits.deadline
    return deadline is not None and deadline < _FEW * search.costs.seconds(search.measure[0], fails=True)


def _finish(search: Search) -> None:
    """Make the best program self-contained and plain, in the share of the deadline that is kept for that."""
    search.allow_more(_FINISH)
    with suppress(Stopped):
        if not search.metadata:  # the first runs used the deadline up
            search.learn(search.oracle.record(search.base.program))
        search.run(inputs.generate)
        search.fixpoint(FINISH)


def _to_the_end(search: Search) -> None:
    """First reach a nearly minimal program in few queries. Then repeat until no pass and no single statement helps."""
    search.coarse = True
    search.run(*CUTS)
    search.fixpoint(STRUCTURE)
    search.coarse = False
    steps = -1
    while steps != len(search.history):
        steps = len(search.history)
        search.fixpoint(FINISH)
        search.fixpoint(STRUCTURE)
