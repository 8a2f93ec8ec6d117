"""Run a unit: a `repro.py` on a build, as often as its rules say. The order and the result are files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson

from repro_kit.files import read_plain, write_atomic
from repro_kit.reduce.flaky import MEASURE
from repro_kit.regressions.metrics import metrics_in
from repro_kit.regressions.unit import UnitOrder, UnitResult, UnitRules, is_enough, now, with_run
from repro_kit.repro_run.running import ReproRun, limits_of, run_repro
from repro_kit.serialize import dumps, from_data

_LARGEST = 4 << 20  # bytes of an order or a result
RUNS = ".runs"  # ends the name of the file with the finished runs of a unit


def run_unit_file(order: str, result: str) -> str:
    """Run the order in file `order`, and write its result to file `result`; returns `result`.

    Any worker that sees both paths can do this. A result that is there already is not made again. The runs of a worker
    that is killed are kept next to the result, and the next worker continues after them.
    """
    if not Path(result).is_file():
        unit = from_data(orjson.loads(read_plain(Path(order), _LARGEST)), UnitOrder)
        finished = finished_runs(Path(result), unit.name)
        done = run_unit(unit, _begun(finished), lambda so_far: write_atomic(finished, dumps(so_far)))
        write_atomic(Path(result), dumps(done))
        finished.unlink(missing_ok=True)
    return result


def finished_runs(result: Path, unit: str) -> Path:
    """The file with the finished runs of a unit, beside its result."""
    return result.with_name(f"{unit}{RUNS}")


def read_result(path: Path) -> UnitResult:
    """The result in a file. Raises ValueError when the file is damaged."""
    return from_data(orjson.loads(read_plain(path, _LARGEST)), UnitResult)


def _begun(finished: Path) -> UnitResult | None:
    try:
        return read_result(finished)
    except (OSError, ValueError):  # there is none, or a full disk cut it off: the runs are made again
        return None


def run_unit(
    order: UnitOrder, begun: UnitResult | None = None, keep: Callable[[UnitResult], None] | None = None
) -> UnitResult:
    """Run a `repro.py` until enough runs have passed or failed; `begun` and `keep` as in `run_until_known`."""

    def run() -> ReproRun:
        return run_repro(
            order.python,
            Path(order.directory),
            timeout=order.timeout,
            variables=order.variables,
            limits=limits_of(order.memory),
        )

    fresh = UnitResult(order.build, attempt=order.attempt, at=now(), case=order.case, line=order.line)
    unit = run_until_known(run, order.rules, begun or fresh, keep or (lambda so_far: None))
    return replace(unit, seconds=round(unit.seconds, 2))


def run_until_known(
    run: Callable[[], ReproRun], rules: UnitRules, begun: UnitResult, keep: Callable[[UnitResult], None]
) -> UnitResult:
    """Call `run` until its runs decide the unit. `begun`: the unit so far; `keep` is called with it after each run."""
    unit = begun
    for _ in range(max(rules.passes, rules.failures, MEASURE)):
        if is_enough(unit, rules):
            break
        observed = run()
        unit = with_run(unit, observed.verdict, rules, timed_out=observed.timed_out)
        unit = replace(unit, metrics=unit.metrics + metrics_in(observed.output))
        keep(unit)
    return unit
