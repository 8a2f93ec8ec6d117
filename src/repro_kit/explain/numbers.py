"""Count the numbers of a run in its trace."""

from __future__ import annotations

from repro_kit.model.measure.measured_run import MeasuredCall, MeasuredRun
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.overview import OverviewState

_COMPILED = (OverviewState.OK, OverviewState.BROKEN, OverviewState.RESTARTED, OverviewState.EMPTY)


def measured(
    insights: Insights, ended: str, seconds: float, calls: tuple[MeasuredCall, ...] = (), stdout: str = ""
) -> MeasuredRun:
    """The numbers in the trace of a run, with the other measurements."""
    compiles = insights.overview.compiles
    largest: dict[object, int] = {}
    for compile_ in compiles:
        if compile_.state in _COMPILED:
            code = compile_.code or compile_.ref.frame_id
            largest[compile_.ref.log, code] = max(largest.get((compile_.ref.log, code), 0), compile_.ops)
    return MeasuredRun(
        ended,
        seconds,
        compiles=sum(compile_.state in _COMPILED for compile_ in compiles),
        recompiles=sum(recompile.count for recompile in insights.recompiles),
        graph_breaks=sum(compile_.count for compile_ in insights.breaks),
        limit_hits=sum(recompile.hit for recompile in insights.recompiles),
        failures=sum(failure.count for failure in insights.failures),
        ops=sum(largest.values()),
        compile_seconds=round(insights.overview.seconds, 2),
        calls=calls,
        stdout=stdout,
    )


def frames(insights: Insights) -> int:
    """How many functions (and parts of functions after a graph break) were compiled.

    A function that several processes compile counts once.
    """
    done = (compile_ for compile_ in insights.overview.compiles if compile_.state in _COMPILED)
    return len({compile_.code or (compile_.ref.log, compile_.ref.frame_id) for compile_ in done})
