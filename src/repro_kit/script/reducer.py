"""The entry point for scripts: from a failing source program to the smallest one that fails alike."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from repro_kit.failure.signature import RunOutcome
from repro_kit.reduce.reduction import DecidingNumber, Neighbours, Removal, Result, Twin, carry_out, judged
from repro_kit.reduce.search import CandidateOracle, Event, Journal, SearchLimits, key_of
from repro_kit.script import Script, passes
from repro_kit.script.failing_statements import keeps, running
from repro_kit.script.proposals import expressions
from repro_kit.script.proposals.structure import levels
from repro_kit.script.recording import RecordedTexts
from repro_kit.script.search import ScriptSearch
from repro_kit.script.tree import NumberedTree

_LONGEST_PLACE = 60  # characters of the call that a number is in
_MOST = 60  # removals to judge; a result with more is not called minimal

Pass = Callable[[ScriptSearch], None]

#: The passes that run once, before all others. All see every statement on its line in the original; the last pass does
#: not need that.
FIRST: tuple[Pass, ...] = (
    passes.called_left_to_eager,
    passes.recorded,
    passes.untyped,
    passes.outside_slices,
    passes.after_failure,
    passes.results,
    passes.left_to_eager,
)

#: What makes a long script short. The list is repeated until it makes no progress.
STRUCTURE: tuple[Pass, ...] = (passes.registries, passes.unreachable, passes.drop, passes.unwrap)

#: What brings together what a short script has in several places. The list is repeated until it makes no progress.
INLINE: tuple[Pass, ...] = (
    passes.unreachable,
    passes.pools,
    passes.first_items,
    passes.generators,
    passes.functions,
    passes.parameters,
    passes.attributes,
    passes.classes,
    passes.accumulated,
    passes.variables,
    passes.lambdas,
    passes.decorators,
    passes.unwrap,
    passes.called_by_check,
    passes.definitions,
)

#: Passes of many queries, each after the others have made the script as short as they can.
DETAILS: tuple[Pass, ...] = (
    passes.items,
    passes.unused,
    passes.simpler,
    passes.unused,
    passes.drawn,
    passes.literals,
    passes.names,
)


def minify_script(
    program: Script,
    oracle: CandidateOracle[Script],
    *,
    decisive: Sequence[str] = (),
    failing_lines: Sequence[int] = (),
    values: Mapping[str, ast.expr] = MappingProxyType({}),
    items: Mapping[str, ast.expr] = MappingProxyType({}),
    record: Callable[[Script], RecordedTexts] = lambda program: RecordedTexts({}, {}),
    journal: Journal | None = None,
    budget: int | None = None,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Result[Script]:
    """The smallest source program found that fails like `program`, according to `oracle`.

    The search is greedy, like that of `reducer.minify`; the order is `tree.measure`. `decisive`: statements, as
    text, that decide whether the script fails, and stay as they are. `failing_lines`: the lines of `program` where the
    failure showed. `values`, `items` and `record`: see `ScriptSearch`. With the journal of a killed search, no
    finished query is made again, and the result is the same, if `record` answers the same. Raises CannotReduce when no
    first run of `program` fails alike.
    """
    search = ScriptSearch(
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
    return carry_out(search, partial(_reduce, search), partial(_look_around, search))


def without_idle_twin(result: Result[Script], lines: Iterable[int]) -> Result[Script]:
    """The result without a variant that passes only since it lacks a statement that fails.

    `lines`: the lines of the result in the traceback of its failure.
    """
    twin = result.neighbours.twin
    if twin is None or result.neighbours.number is not None or keeps(twin.program, running(result.program, lines)):
        return result
    return replace(result, neighbours=replace(result.neighbours, twin=None))


def compacted(result: Result[Script]) -> Result[Script]:
    """The result and its passing variant in the fewest lines; the search needs each statement on a line of its own."""
    twin = result.neighbours.twin
    fewer = twin and replace(twin, program=twin.program.compact)
    return replace(result, program=result.program.compact, neighbours=replace(result.neighbours, twin=fewer))


def _reduce(search: ScriptSearch) -> None:
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
    search.run(passes.checked)  # what decides does not change any more


def _inline(search: ScriptSearch) -> None:
    search.fixpoint(INLINE)


def _look_around(search: ScriptSearch) -> Iterator[Neighbours[Script]]:
    """The result without each single statement, so far, after each query."""
    numbered = search.rebase()
    numbers = [number for level in levels(numbered) for number in level]
    removals: list[Removal] = []
    twin: Twin[Script] | None = None
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


def _deciding_number(search: ScriptSearch, numbered: NumberedTree) -> tuple[DecidingNumber, Script] | None:
    """The number of the result for which the search saw the nearest other number pass; 0 would show too little."""
    found: list[tuple[float, DecidingNumber, Script]] = []
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
    text = "" if node is None else _first_line(node)
    if isinstance(node, ast.Call) and len(text) > _LONGEST_PLACE:  # what is called may be a whole function
        text = ast.unparse(ast.Call(ast.Name("…"), node.args, node.keywords))
    return text


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]
