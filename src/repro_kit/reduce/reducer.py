"""The entry point: from a failing program to the smallest program that fails alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from repro_kit.program import Program, TensorInput, render, size
from repro_kit.program.analysis import Base
from repro_kit.program.program_edits import Outputs, Remove, apply
from repro_kit.reduce.answer_journal import Journal
from repro_kit.reduce.candidate_search import Event, SearchLimits, Stop, Stopped, key_of
from repro_kit.reduce.neighbours import Neighbours, look_around
from repro_kit.reduce.oracle import Answer, Oracle
from repro_kit.reduce.passes import bodies, cut, input_values, recipe_settings, statements, wording
from repro_kit.reduce.passes.guess import guess
from repro_kit.reduce.passes.input_shapes import shapes
from repro_kit.reduce.passes.plain import plain
from repro_kit.reduce.result import CannotReduce, Result, count_failed, is_slow, measure_original, result_of
from repro_kit.reduce.search_state import Search

_STRUCTURE = 0.75  # share of the deadline for the structure
_FINISH = 1 - _STRUCTURE  # share for making the best program self-contained, however late the structure ended

#: The passes in order. Each list is repeated until it makes no progress, then all lists are.
CUTS: tuple[Callable[[Search], None], ...] = (bodies.inline, bodies.levels, cut.cut_end, cut.cut_start, cut.ends)
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
    statements.pairs,
)
FINISH: tuple[Callable[[Search], None], ...] = (
    plain,
    input_values.generate,
    input_values.plain_inputs,
    input_values.dtypes,
    shapes,
    recipe_settings.marks,
    recipe_settings.recipe,
    recipe_settings.calls,
    wording.arguments,
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
) -> Result[Program]:
    """The smallest program found that fails like `program`, according to `oracle`.

    The search is greedy: a candidate replaces the best program when it fails alike and is smaller (`order.measure`). At
    a fixpoint no pass makes progress; `Neighbours.minimal` says whether the result is 1-minimal.

    `hints`: operators, kernels or values that the failure names. `before`: answers that the oracle gave for `program`
    already; they count among its first runs. `journal`: with the journal of a killed search, no finished query is made
    again, and the result is the same. `budget` (queries) and `deadline` (seconds of `clock`) end the search early; the
    best program so far is the result. After a deadline, stored values are still dropped from it. Raises CannotReduce
    when no first run of `program` fails alike, or when a program without compute fails alike too.
    """
    search = Search(
        Base(program),
        oracle,
        Journal() if journal is None else journal,
        SearchLimits(budget, deadline, clock),
        on_event,
    )
    search.share = _STRUCTURE
    start = clock()
    original: list[Answer] = list(before)
    stopped: Stop = "fixpoint"
    neighbours: Neighbours[Program] = Neighbours()
    try:
        measure_original(search, original)
        _check_trivial(search)
        search.learn(oracle.record(program))
        _reduce(search, hints, slow=is_slow(original))
        search.share = 1.0
        search.begin("neighbours")
        for neighbours in look_around(search):  # noqa: B007 - the last one before a limit is the result
            pass
    except Stopped as stop:
        stopped = stop.reason
        if stopped == "deadline" and search.share == _STRUCTURE:
            _finish(search)
    search.end(stopped)
    return result_of(search, original, size(program), clock() - start, stopped, neighbours)


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
    everything = Remove(frozenset(range(len(program.graph.statements))))
    return apply(search.base, [everything, Outputs((param,))], search.metadata)


def _reduce(search: Search, hints: Sequence[str], *, slow: bool) -> None:
    if slow:  # the deadline allows a few steps only, and a hang that gets shorter looks more like a slow pass
        _run(search, input_values.generate)  # a repro.py with stored values is not self-contained
        _run(search, plain)
    _run(search, recipe_settings.narrow)
    _run(search, statements.tidy)
    search.begin("guess")
    guess(search, hints)
    _to_the_end(search)


def _finish(search: Search) -> None:
    """Make the best program self-contained and plain, in the share of the deadline that is kept for that."""
    search.allow_more(_FINISH)
    with suppress(Stopped):
        if not search.metadata:  # the first runs used the deadline up
            search.learn(search.oracle.record(search.base.program))
        _run(search, input_values.generate)
        _fixpoint(search, FINISH)


def _to_the_end(search: Search) -> None:
    """First reach a nearly minimal program in few queries. Then repeat until no pass and no single statement helps."""
    search.coarse = True
    for pass_ in CUTS:
        _run(search, pass_)
    _fixpoint(search, STRUCTURE)
    search.coarse = False
    steps = -1
    while steps != len(search.history):
        steps = len(search.history)
        _fixpoint(search, FINISH)
        _fixpoint(search, STRUCTURE)


def _fixpoint(search: Search, passes: Sequence[Callable[[Search], None]]) -> None:
    steps = -1
    while steps != len(search.history):
        steps = len(search.history)
        for pass_ in passes:
            _run(search, pass_)


def _run(search: Search, pass_: Callable[[Search], None]) -> None:
    search.begin(pass_.__name__)
    pass_(search)
