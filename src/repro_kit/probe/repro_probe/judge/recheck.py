"""Judge a differing result again: is the compiler wrong, or is the difference due to rounding, chance or a tie?"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, cast

import torch

from repro_probe.judge import choices, compare_outputs, double_precision, rounding
from repro_probe.judge.compare_outputs import OF_ROUNDING, OF_VALUES, WITHOUT_REFERENCE, Evidence, Tolerance
from repro_probe.judge.double_precision import error_table, explained, plain_tolerance
from repro_probe.judge.doubts import ClonedDropouts, DrawnInOrder
from repro_probe.protocol.failure_data import UNSTEADY, ComparisonData, DifferenceData, ErrorRow
from repro_probe.run import outputs
from repro_probe.run.outputs import Outcome, RunnableCalls

_SEEDS = 10  # that are tried, so that one dropped element is missed once in a thousand times
_SEED_SECONDS = 5.0  # for more than two of them


def reconsider(
    program: RunnableCalls,
    eager: Outcome,
    compiled: Outcome,
    with_eager_random: Callable[[], Outcome],
    *,
    with_errors: bool = False,
) -> ComparisonData:
    """Return the difference that nothing excuses (None: the result is right), and how to show that difference.

    ``tolerance`` is (rtol, atol) for a plain comparison, where the usual tolerance is not enough. ``fallback_random``
    says that the difference shows with eager's random numbers. ``rounding`` says that eager's own rounding explains
    every difference: those of a right result, and those beyond a stated tolerance. ``random`` says that a right result
    differs because it depends on random numbers. With `with_errors`, ``errors`` has the results that differ, and
    ``rounding`` is judged by them.

    `with_eager_random` compiles and runs the program again with eager's random numbers. Without these, a result that
    depends on random numbers cannot be compared.
    """
    chance: list[str] = []
    if eager.random and not program.recipe["fallback_random"]:
        chance = _depending_on_chance(program, eager)
    if not chance:
        notes: list[str] = []
        return _reply(_look(program, eager, compiled, notes, with_errors=with_errors), notes)
    notes = ["compared with fallback_random on, since results depend on random numbers"]
    judged = _with_fallback(program, eager, with_eager_random, notes, with_errors=with_errors)
    if judged.differences:
        return {**_reply(judged, notes), "fallback_random": True}
    others = ["right with fallback_random on; results that depend on random numbers are not compared"]
    apart = _look(program, eager, compiled, others, chance)
    if apart.differences:
        return _reply(apart, others)
    return {**_reply(judged, [*notes, "a bug in Inductor's own random numbers would not show"]), "random": True}


def compare_ranks(program: RunnableCalls, eager: Outcome, compiled: Outcome) -> ComparisonData:
    """Return the difference on this rank of a process group, judged by a run in double precision.

    All ranks must make the same runs, whatever they find. So rounding is not followed any further, and results that
    depend on random numbers are not compared.
    """
    best = double_precision.in_double(program)
    if eager.random:
        return {"note": "results that depend on random numbers are not compared on several ranks"}
    stated = Tolerance(program.recipe)
    tolerance = stated if best or stated.stated else Tolerance(program.recipe, factor=WITHOUT_REFERENCE)
    return _reply(_Judged(compare_outputs.kinds_of_difference(eager, compiled, tolerance, Evidence(best))), [])


def _reply(judged: _Judged, notes: list[str]) -> ComparisonData:
    wrong, right = judged.sides
    told: ComparisonData = {"wrong": list(wrong), "right": list(right)} if wrong else {}
    return {
        **told,
        "difference": next(iter(judged.differences), None),
        "also": judged.differences[1:],
        "tolerance": judged.tolerance,
        "note": "; ".join(notes),
        "errors": list(judged.errors),
        "rounding": judged.rounding,
    }


class _Judged(NamedTuple):
    """Differences that nothing excuses, one of each kind, and the tolerance that shows them (None: the usual one).

    `rounding` says that eager's own rounding explains every difference, those beyond a stated tolerance too. `errors`
    are the results that differ, for a table. `sides`: the names of the results that are certainly wrong, and of the
    right ones, without a table.
    """

    differences: list[DifferenceData]
    tolerance: tuple[float, float] | None = None
    rounding: bool = False
    errors: Sequence[ErrorRow] = ()
    sides: tuple[Sequence[str], Sequence[str]] = ((), ())


def _with_fallback(
    program: RunnableCalls,
    eager: Outcome,
    with_eager_random: Callable[[], Outcome],
    notes: list[str],
    *,
    with_errors: bool,
) -> _Judged:
    """Judge a run with eager's random numbers, which compiled code may draw in another order of the elements."""
    try:
        compiled = with_eager_random()
    except Exception as error:
        notes.append(f"which raises {type(error).__name__}")
        return _Judged([])
    judged = _look(program, eager, compiled, notes, with_errors=with_errors)
    if not any(each["kind"] in OF_VALUES for each in judged.differences):
        return judged
    in_order = cast(RunnableCalls, DrawnInOrder(program))
    drawn_in_order = outputs.run(in_order, in_order.graph)
    again = _look(in_order, drawn_in_order, compiled, [], with_errors=with_errors)
    if any(each["kind"] in OF_VALUES for each in again.differences):
        return judged
    _note(notes, "the compiled code draws the random numbers of a tensor in another order of its elements")
    return again


def _look(
    program: RunnableCalls,
    eager: Outcome,
    compiled: Outcome,
    notes: list[str],
    ignore: Collection[str] = (),
    *,
    with_errors: bool = False,
) -> _Judged:
    """Judge the differences of `eager` and `compiled`. Excuses are added to `notes`."""
    tolerance = Tolerance(program.recipe)
    unstable = _differing(program, eager, program.graph)
    if unstable and not set(unstable) <= set(ignore):
        _note(notes, UNSTEADY + ", ".join(sorted(unstable)))
    best = None if eager.random else double_precision.in_double(program)
    if best is None and not tolerance.stated:
        tolerance = Tolerance(program.recipe, factor=WITHOUT_REFERENCE)
        _note(notes, "no reference in double precision; ten times the usual tolerance")
    evidence = compare_outputs.Evidence(best, ignore={*unstable, *ignore})
    differences = compare_outputs.kinds_of_difference(eager, compiled, tolerance, evidence)
    if any(each["kind"] == "alias" for each in differences):
        with ClonedDropouts():
            evidence.memory = outputs.run(program, program.graph).places()
        differences = compare_outputs.kinds_of_difference(eager, compiled, tolerance, evidence)
    by_rounding = any(each["kind"] in OF_ROUNDING for each in differences)
    if by_rounding or with_errors:
        evidence = _with_rounding(program, evidence, notes)
        differences = compare_outputs.kinds_of_difference(eager, compiled, tolerance, evidence)
        if by_rounding and not differences:
            _note(notes, "the difference is due to ties or to rounding")
    plain = Tolerance(program.recipe)  # without the factor
    if not differences and not with_errors:
        excused = compare_outputs.kinds_of_difference(eager, compiled, plain, Evidence(ignore=evidence.ignore))
        return _Judged([], rounding=bool(excused))
    errors = error_table(eager, compiled, plain, evidence)
    values = [each for each in differences if each["kind"] == "value" and each.get("exact") is False]
    named = None
    if values and not tolerance.stated:
        named = plain_tolerance(eager, compiled, best, values[0]["where"])
    parted = ([], []) if with_errors else double_precision.sides(eager, compiled, evidence)
    return _Judged(differences, named, rounding=explained(errors), errors=errors, sides=parted)


def _with_rounding(program: RunnableCalls, evidence: Evidence, notes: list[str]) -> Evidence:
    """Add the results of eager with its rounding disturbed, and the origins of its indices, to `evidence`."""
    runs = rounding.nudged_runs(program)
    try:
        chosen, tied = choices.follow(program)
    except Exception as error:  # the program uses its own dispatch mode, or one that hides operators
        chosen, tied = {}, set()
        _note(notes, f"indices could not be followed to the values that they select ({type(error).__name__})")
    if not runs:
        _note(notes, "eager could not be run with its rounding disturbed")
    again = compare_outputs.Evidence(evidence.best, runs, chosen, tied, evidence.ignore)
    again.memory = evidence.memory
    return again


def _differing(program: RunnableCalls, eager: Outcome, graph: Callable[..., Any]) -> list[str]:
    """Return the names of results that differ from `eager` when `graph` is run in eager again."""
    again = outputs.run(program, graph)
    return compare_outputs.places_that_differ(eager, again, Tolerance(program.recipe))


def unsteady(program: RunnableCalls, eager: Outcome) -> list[str]:
    """Return the names of the results of which eager alone has several, so that they cannot be compared."""
    by_chance = eager.random and not program.recipe["fallback_random"]
    return [*_differing(program, eager, program.graph), *(_depending_on_chance(program, eager) if by_chance else ())]


def _depending_on_chance(program: RunnableCalls, eager: Outcome) -> list[str]:
    """Return the names of the results that differ with another seed. Half of the seeds show one dropped element."""
    places: dict[str, None] = {}
    until = time.monotonic() + _SEED_SECONDS
    for number in range(1, _SEEDS + 1):
        if number > 2 and time.monotonic() > until:
            break
        places.update(dict.fromkeys(_differing(program, eager, _reseeded(program, number))))
    return list(places)


def _reseeded(program: RunnableCalls, number: int) -> Callable[..., Any]:
    """Return `program.graph` with different random numbers, and with the same inputs."""

    def graph(*arguments: Any) -> Any:
        torch.manual_seed(program.recipe["seed"] + number)
        return program.graph(*arguments)

    return graph


def _note(notes: list[str], words: str) -> None:
    if words not in notes:
        notes.append(words)
