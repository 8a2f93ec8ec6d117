"""The numbers of a run, from its trace."""

from __future__ import annotations

from repro_kit.model.measure.measured_run import MeasuredCall, MeasuredRun
from repro_kit.trace.insights import Insights
from repro_kit.trace.insights.overview import OverviewState

_COMPILED = (OverviewState.OK, OverviewState.BROKEN, OverviewState.RESTARTED, OverviewState.EMPTY)


def measured(
    insights: Insights, ended: str, seconds: float, calls: tuple[MeasuredCall, ...] = (), stdout: str = ""
) -> MeasuredRun:
    """What the trace says of a run, with what else was measured."""
    compiles = insights.overview.compiles
    largest: dict[object, int] = {}
    for one in compiles:
        if one.state in _COMPILED:
            code = one.code or one.ref.frame_id
            largest[one.ref.log, code] = max(largest.get((one.ref.log, code), 0), one.ops)
    return MeasuredRun(
        ended,
        seconds,
        compiles=sum(compile_.state in _COMPILED for compile_ in compiles),
        recompiles=sum(recompile.count for recompile in insights.recompiles),
        graph_breaks=sum(one.count for one in insights.breaks),
        limit_hits=sum(recompile.hit for recompile in insights.recompiles),
        failures=sum(failure.count for failure in insights.failures),
        ops=sum(largest.values()),
        compile_seconds=round(insights.overview.seconds, 2),
        calls=calls,
        stdout=stdout,
    )


def frames(insights: Insights) -> int:
    """How many functions (and rests of functions) were compiled; the same one of several processes is one."""
    done = (compile_ for compile_ in insights.overview.compiles if compile_.state in _COMPILED)
    return len({one.code or (one.ref.log, one.ref.frame_id) for one in done})
