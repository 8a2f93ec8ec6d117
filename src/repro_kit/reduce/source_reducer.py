"""The entry point for scripts: from a failing source program to the smallest one that fails alike."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.reduce.answer_journal import Journal
from repro_kit.reduce.candidate_search import Event, SearchLimits, key_of
from repro_kit.reduce.oracle import CandidateOracle
from repro_kit.reduce.result import DecidingNumber, Neighbours, Removal, Result, Twin, carry_out, judged
from repro_kit.reduce.source_passes import calls, structure
from repro_kit.reduce.source_search import SourceSearch
from repro_kit.source import SourceProgram
from repro_kit.source.decisive import keeps, running
from repro_kit.source.proposals import expressions
from repro_kit.source.proposals.structure import levels
from repro_kit.source.recording import RecordedTexts
from repro_kit.source.tree import NumberedTree

_MOST = 60  # removals to judge; a result with more is not called minimal

Pass = Callable[[SourceSearch], None]

#: The passes that run once, before all others. All see every statement on its line in the original; the last pass does
#: not need that.
FIRST: tuple[Pass, ...] = (
    structure.called_left_to_eager,
    structure.recorded,
    structure.untyped,
    structure.outside_slices,
    structure.after_failure,
    structure.results,
    structure.left_to_eager,
)

#: What makes a long script short. The list is repeated until it makes no progress.
STRUCTURE: tuple[Pass, ...] = (calls.registries, structure.unreachable, structure.drop, structure.unwrap)

#: What brings together what a short script has in several places. The list is repeated until it makes no progress.
INLINE: tuple[Pass, ...] = (
    structure.unreachable,
    calls.pools,
    calls.first_items,
    calls.generators,
    calls.functions,
    calls.parameters,
    calls.attributes,
    calls.classes,
    calls.accumulated,
    calls.variables,
    calls.lambdas,
    calls.decorators,
    structure.unwrap,
    structure.definitions,
)

#: Passes of many queries, each after the others have made the script as short as they can.
DETAILS: tuple[Pass, ...] = (
    structure.items,
    structure.unused,
    structure.simpler,
    structure.unused,
    structure.literals,
    calls.names,
)


def minify_source(
    program: SourceProgram,
    oracle: CandidateOracle[SourceProgram],
    *,
    decisive: Sequence[str] = (),
    failing_lines: Sequence[int] = (),
    values: Mapping[str, ast.expr] = MappingProxyType({}),
    items: Mapping[str, ast.expr] = MappingProxyType({}),
    record: Callable[[SourceProgram], RecordedTexts] = lambda program: RecordedTexts({}, {}),
    journal: Journal | None = None,
    budget: int | None = None,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Result[SourceProgram]:
    """The smallest source program found that fails like `program`, according to `oracle`.

    The search is greedy, like that of `reducer.minify`; the order is `source.order.measure`. `decisive`: statements, as
    text, that decide whether the script fails, and stay as they are. `failing_lines`: the lines of `program` where the
    failure showed. `values`, `items` and `record`: see `SourceSearch`. With the journal of a killed search, no
    finished query is made again, and the result is the same, if `record` answers the same. Raises CannotReduce when no
    first run of `program` fails alike.
    """
    search = SourceSearch(
        NumberedTree(program),
        oracle,
        Journal() if journal is None else journal,
        SearchLimits(budget, deadline, clock),
        on_event,
        decisive=tuple(decisive),
        failing_lines=tuple(failing_lines),
        values=values,
        items=items,
        record=record,
    )
    return carry_out(search, lambda _: _reduce(search), partial(_look_around, search))


def without_idle_twin(result: Result[SourceProgram], lines: Iterable[int]) -> Result[SourceProgram]:
    """The result without a variant that passes only since it lacks a statement that fails.

    `lines`: the lines of the result in the traceback of its failure.
    """
    twin = result.neighbours.twin
    if twin is None or result.neighbours.number is not None or keeps(twin.program, running(result.program, lines)):
        return result
    return replace(result, neighbours=replace(result.neighbours, twin=None))


def _reduce(search: SourceSearch) -> None:
    search.coarse = True
    search.run(*FIRST)
    search.fixpoint(STRUCTURE)
    search.coarse = False
    steps = -1
    while steps != len(search.history):
        search.thorough = False
        search.fixpoint((_inline, *DETAILS))
        search.record_anew()
        steps, search.thorough = len(search.history), True
        search.run(_inline, *DETAILS)


def _inline(search: SourceSearch) -> None:
    search.fixpoint(INLINE)


def _look_around(search: SourceSearch) -> Iterator[Neighbours[SourceProgram]]:
    """The result without each single statement, so far, after each query."""
    numbered = search.rebase()
    numbers = [number for level in levels(numbered) for number in level]
    removals: list[Removal] = []
    twin: Twin[SourceProgram] | None = None
    for number in numbers[:_MOST]:
        program = numbered.edited({number: None})
        removals.append(judged(search, f"without `{_first_line(numbered.nodes[number])}`", program))
        if program is not None and removals[-1].outcome is RunOutcome.PASSES:  # the innermost statement differs least
            twin = Twin(removals[-1].what, program)
        yield Neighbours(tuple(removals), twin=twin)
    number_found, passing = _deciding_number(search, numbered) or (None, None)
    if number_found is not None and passing is not None:
        twin = Twin(number_found.change, passing)
    yield Neighbours(tuple(removals), len(numbers) <= _MOST, twin, number_found)


def _deciding_number(search: SourceSearch, numbered: NumberedTree) -> tuple[DecidingNumber, SourceProgram] | None:
    """The number of the result for which the search saw the nearest other number pass; 0 would show too little."""
    found: list[tuple[float, DecidingNumber, SourceProgram]] = []
    for edits in (edits for each in expressions.literals(numbered) for edits in each):
        ((at, constant),) = edits.items()
        fails, passes = _number(numbered.nodes[at]), _number(constant)
        program = numbered.edited(edits) if fails is not None and passes else None
        if fails is None or passes is None or program is None or search.is_new(key_of(program.text)):
            continue
        (answer,) = search.ask([program], [key_of(program.text)])
        if answer.outcome is RunOutcome.PASSES:
            what = f"the number in `{_around(numbered, numbered.nodes[at])}`"
            found.append((abs(fails - passes), DecidingNumber(what, fails, passes), program))
    return min(found, key=lambda each: each[0])[1:] if found else None


def _number(node: object) -> int | float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _around(numbered: NumberedTree, node: ast.AST | None) -> str:
    """The first line of the innermost operation, or of the statement, that `node` is in."""
    while node is not None and not isinstance(node, ast.stmt | ast.Call | ast.BinOp | ast.Compare | ast.Subscript):
        node = numbered.parent(node)
    return "" if node is None else _first_line(node)


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]
