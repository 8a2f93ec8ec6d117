"""The public entry: from a failing program to the smallest one that fails alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from repro_kit.errors import Exit, ReproKitError
from repro_kit.program import Program, TensorInput, render, size
from repro_kit.program.analysis import Base
from repro_kit.program.edits import Outputs, Remove, apply
from repro_kit.reduce.journal import Journal
from repro_kit.reduce.neighbours import Neighbours, look_around
from repro_kit.reduce.oracle import Answer, Oracle, Outcome
from repro_kit.reduce.passes import bodies, cut, settings, statements, values, wording
from repro_kit.reduce.passes.guess import guess
from repro_kit.reduce.passes.plain import plain
from repro_kit.reduce.passes.shapes import shapes
from repro_kit.reduce.search import Accepted, Event, Limits, Search, Stop, Stopped, key_of

_RUNS = 3  # of the original, to see whether it always fails
_SLOW = 20.0  # seconds of one run, from which on one run has to do
_STRUCTURE = 0.75  # of the deadline: what is left makes the best so far self-contained

#: In order; each list is repeated until nothing in it makes progress, then all of them.
CUTS: tuple[Callable[[Search], None], ...] = (bodies.inline, cut.cut_end, cut.cut_start, cut.ends)
STRUCTURE: tuple[Callable[[Search], None], ...] = (
    bodies.inline,
    statements.bypass,
    statements.to_input,
    statements.outputs,
    statements.effects,
    statements.merge_inputs,
    bodies.same_branches,
    bodies.inside,
    bodies.operands,
)
FINISH: tuple[Callable[[Search], None], ...] = (
    plain,
    values.generate,
    values.plain_inputs,
    shapes,
    settings.marks,
    settings.recipe,
    settings.calls,
    wording.arguments,
    wording.public_names,
    settings.preamble,
)


class CannotReduce(ReproKitError):
    """The program does not fail as the oracle expects, or fails without any compute; `program` is what was judged."""

    def __init__(self, message: str, program: Program, answers: Sequence[Answer]) -> None:
        super().__init__(message, Exit.FAILED)
        self.program = program
        self.answers = tuple(answers)


@dataclass(frozen=True)
class Result:
    """What a reduction found: `history`, every accepted program; `others`, one program for each other failure met."""

    program: Program
    statements_before: int
    statements_after: int
    queries: int
    steps: int
    seconds: float
    stopped: Stop
    failed: int  # of `runs` of the original: fewer for a flaky failure
    runs: int
    history: tuple[Accepted, ...] = ()
    neighbours: Neighbours = field(default_factory=Neighbours)
    others: tuple[tuple[str, Program], ...] = ()


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
) -> Result:
    """The smallest program found that fails like `program`, by the judgement of `oracle`.

    `hints`: operators, kernels or values that the failure names. `before`: answers that the oracle gave for `program`
    already; they count among its first three. `journal`: with one that a killed search left, no
    finished query is made again, and the end is the same. `budget`: queries, `deadline`: seconds of `clock`; at either
    the best so far is returned. Raises CannotReduce when the program does not fail alike in any of its first runs, or
    when a program without compute "fails" too.
    """
    search = Search(
        Base(program), oracle, Journal() if journal is None else journal, Limits(budget, deadline, clock), on_event
    )
    start = clock()
    failed = runs = 0
    stopped: Stop = "fixpoint"
    neighbours = Neighbours()
    try:
        failed, runs, slow = _verify(search, before)
        search.learn(oracle.record(program))
        _reduce(search, hints, slow=slow)
        search.begin("neighbours")
        for neighbours in look_around(search):  # noqa: B007 - the last one before a limit is the result
            pass
    except Stopped as stop:
        stopped = stop.reason
    return Result(
        program=search.program,
        statements_before=size(program),
        statements_after=size(search.program),
        queries=search.queries,
        steps=len(search.history),
        seconds=clock() - start,
        stopped=stopped,
        failed=failed,
        runs=runs,
        history=tuple(search.history),
        neighbours=neighbours,
        others=tuple(search.others.items()),
    )


def _verify(search: Search, before: Sequence[Answer]) -> tuple[int, int, bool]:
    """(how often the original failed alike, of how many runs, whether these are slow).

    A flaky failure makes the search repeat its queries.

    A program that only returns an input must not fail, or the judgement is about something else than the graph.
    """
    search.begin("verify")
    program, trivial = search.program, _trivial(search)
    key = key_of(render(program, footer=False))
    answers = list(before) or list(search.ask([program], [f"{key}#0"]))
    slow = answers[0].outcome is Outcome.SAME and answers[0].seconds >= _SLOW
    asked = [] if slow else [(program, f"{key}#{at}") for at in range(len(answers), _RUNS)]
    if trivial is not None:
        asked.insert(0, (trivial, key_of(render(trivial, footer=False))))
    found = list(search.ask([it for it, _ in asked], [it for _, it in asked]))
    answers += found if trivial is None else found[1:]
    failed = sum(it.outcome is Outcome.SAME for it in answers)
    if not failed:
        seen = "; ".join(dict.fromkeys(f"{it.outcome}{': ' + it.note if it.note else ''}" for it in answers))
        raise CannotReduce(
            f"The program did not fail as expected in {len(answers)} runs ({seen}); nothing to reduce.",
            program,
            answers,
        )
    if trivial is not None and found[0].outcome is Outcome.SAME:
        raise CannotReduce(
            "A graph that only returns its input fails alike: the failure does not depend on the graph.",
            trivial,
            found[:1],
        )
    if failed < len(answers):
        search.repeats = 2 * _RUNS // failed
    return failed, len(answers), slow


def _trivial(search: Search) -> Program | None:
    """The program without compute; None where it has none, or no tensor to return."""
    program = search.program
    tensors = {it.name for it in program.inputs if isinstance(it, TensorInput)}
    call = dict(zip(program.graph.params, program.calls[0], strict=True))
    param = next((it for it in program.graph.params if call[it] in tensors), None)
    if param is None or not size(program):
        return None
    everything = Remove(frozenset(range(len(program.graph.statements))))
    return apply(search.base, [everything, Outputs((param,))], search.metadata)


def _reduce(search: Search, hints: Sequence[str], *, slow: bool) -> None:
    search.share = _STRUCTURE
    try:
        if slow:  # there is time for a few steps only, and a hang that gets shorter is harder to tell from a slow pass
            _run(search, plain)
        _run(search, settings.narrow)
        _run(search, statements.tidy)
        search.begin("guess")
        guess(search, hints)
        _to_the_end(search)
    except Stopped as stop:
        if stop.reason == "deadline":
            search.share = 1.0
            _fixpoint(search, FINISH)
        raise


def _to_the_end(search: Search) -> None:
    """Quickly to what is nearly minimal; then until nothing can be plainer and no single statement can go."""
    search.coarse = True
    for it in CUTS:
        _run(search, it)
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
        for it in passes:
            _run(search, it)


def _run(search: Search, it: Callable[[Search], None]) -> None:
    search.begin(it.__name__)
    it(search)
