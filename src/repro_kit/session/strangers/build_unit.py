"""Run a unit of a farm: a `repro.py` on a build, as often as its order says. The order and the result are files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import orjson

from repro_kit.farm.unit import UnitOrder, UnitResult
from repro_kit.files import write_atomic
from repro_kit.model.failure.failure import Failure, Kind, Status
from repro_kit.model.failure.signature import Signature, Strength, signature_of
from repro_kit.model.run_outcome import RunOutcome, outcome_of
from repro_kit.model.serialize import dumps, from_data
from repro_kit.plain_file import read_plain
from repro_kit.reduce.flaky import MEASURE
from repro_kit.session.strangers.repro_run import RunOfRepro, limits_of, run_repro
from repro_kit.visible import one_line

_LARGEST = 4 << 20  # bytes of an order or a result
_LONGEST = 300  # characters of a note


def run_unit_file(order: str, result: str) -> str:
    """Run the order in file `order`, and write its result to file `result`; returns `result`.

    Any worker that sees both paths can do this. A result that is there already is not made again.
    """
    if not Path(result).is_file():
        unit = run_unit(from_data(orjson.loads(read_plain(Path(order), _LARGEST)), UnitOrder))
        write_atomic(Path(result), dumps(unit))
    return result


def read_result(path: Path) -> UnitResult:
    """The result in a file. Raises ValueError when the file is damaged."""
    return from_data(orjson.loads(read_plain(path, _LARGEST)), UnitResult)


def run_unit(order: UnitOrder) -> UnitResult:
    """Run a `repro.py` until enough runs have passed or failed. A first run that does neither ends the unit."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    unit = UnitResult(order.case, order.line, order.build, order.attempt, RunOutcome.PASSES, at=started)
    for _ in range(max(order.passes, order.failures, MEASURE)):
        if _is_enough(unit, order):
            break
        run = run_repro(
            order.python,
            Path(order.directory),
            timeout=order.timeout,
            variables=order.variables,
            limits=limits_of(order.memory),
        )
        unit = _with_run(unit, run, order)
    return replace(unit, seconds=round(unit.seconds, 2))


def _is_enough(unit: UnitResult, order: UnitOrder) -> bool:
    if unit.outcome not in (RunOutcome.PASSES, RunOutcome.FAILS_ALIKE):
        return True
    if not unit.failed:
        return unit.passed >= max(order.passes, 1)
    rate_wanted = MEASURE if unit.passed and order.failures > 1 else order.failures
    return unit.failed + unit.passed >= rate_wanted


def _with_run(unit: UnitResult, run: RunOfRepro, order: UnitOrder) -> UnitResult:
    """Add a run. A failure as expected decides the unit; another outcome does only before any such failure."""
    outcome, note, failure = _outcome(run, order)
    passed = outcome is RunOutcome.PASSES
    failed = outcome is RunOutcome.FAILS_ALIKE
    return replace(
        unit,
        outcome=RunOutcome.FAILS_ALIKE if unit.failed else outcome,
        failed=unit.failed + failed,
        passed=unit.passed + passed,
        note=note or unit.note,
        seconds=unit.seconds + run.verdict.seconds,
        failure=unit.failure or failure,
    )


def _outcome(run: RunOfRepro, order: UnitOrder) -> tuple[RunOutcome, str, Signature | None]:
    """The outcome of a run, and what was seen where that is not what was expected.

    A time-out is a hang when the case is about a hang, or has ended in time on another build; it may only be slow else.
    """
    expected, verdict = order.signature, run.verdict
    if run.timed_out:
        if not order.hangs and (expected is None or not expected.kind.policy.hangs):
            return RunOutcome.CANNOT_TELL, _short(verdict.note), None
        verdict = replace(verdict, status=Status.FAIL, failure=Failure(Kind.TIMEOUT))
    outcome = outcome_of(verdict, expected, Strength.CROSS_VERSION)
    failure = signature_of(verdict.failure) if verdict.failure else None
    if outcome is RunOutcome.PASSES or (outcome is RunOutcome.FAILS_ALIKE and expected is not None):
        return outcome, "", None
    return outcome, "" if outcome is RunOutcome.FAILS_ALIKE else _short(run.summary), failure


def _short(text: str) -> str:
    return one_line(text)[:_LONGEST]
