"""Answer one request (docs/explanation/zygote.md) in this process."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from repro_probe.common.describe_exception import describe_exception
from repro_probe.protocol.failure_data import ComparisonData
from repro_probe.protocol.queries import Query, QueryAnswer, QueryReport
from repro_probe.protocol.report_data import ReportData
from repro_probe.query.fake import is_valid_under_fake
from repro_probe.query.origins import origins
from repro_probe.query.query_run import Invalid, QueryRun, ReachedNative, eager_limit, forget_compiled, stop_at_native
from repro_probe.run import process_group
from repro_probe.run.load_program import LoadedProgram, set_config

if TYPE_CHECKING:
    from repro_probe.run.outputs import Outcome  # this module imports torch


def evaluate(request: Query, tell: Callable[[QueryReport], None], threads: int | None = None) -> QueryAnswer:
    """Return the answer to `request`; the server adds the rest of the reply.

    `tell` gets ``{"phase": …}`` before each step. `threads` is the machine's default number of threads, for a process
    that has changed its own number.
    """

    def passes_on(rank: int) -> bool:
        return evaluate({**request, "rank": rank}, _say_nothing, threads)["status"] == "pass"

    run = QueryRun(request, tell, threads, passes_on)
    try:
        return _MODES[request["mode"]](run)
    except Invalid as invalid:
        return {"status": "invalid", "phase": run.phase, "exceptions": describe_exception(invalid.__cause__)}


def _say_nothing(report: QueryReport) -> None:
    """Report nothing."""


def _check(run: QueryRun) -> QueryAnswer:
    program, request = run.load(), run.request
    if program.recipe["validation"]:
        return _check_validation(program, run)
    if program.recipe["growth"] is not None:
        return _check_growth(program, program.recipe["growth"], run)
    with eager_limit(request["ends"]):
        eager = run.eager(program)
    until = request.get("until")
    if until == "native" or (until and program.recipe["backward"] == "none"):
        stop_at_native()
    run.switch()
    try:
        compiled = run.compiled(program, until)
    except ReachedNative:
        return {"status": "pass", "phase": run.phase, "note": "stopped before the native compiler"}
    except (Exception, SystemExit) as error:
        named, phase = _origins(error, request["text"], program.namespace["__file__"]), run.phase
        reply: QueryAnswer = {"status": "fail", "phase": phase, "exceptions": describe_exception(error)}
        return {**reply, "origins": named, "doubts": _doubts(program, eager)}
    comparison: ComparisonData = {}
    if program.recipe["check"]:
        run.step("compare")
        comparison = _compare(program, run, eager, compiled)
    failed = comparison.get("difference") is not None
    if failed:
        comparison["doubts"] = _doubts(program, eager)
    verdict: QueryAnswer = {"status": "fail" if failed else "pass", "phase": "compare" if failed else "exit"}
    return {**verdict, **cast(QueryAnswer, comparison)}


def _check_validation(program: LoadedProgram, run: QueryRun) -> QueryAnswer:
    """Fail where eager raises an exception and the compiled program raises none; pass where both or neither raises."""
    error = _eager_exception(program, run)
    if error is None:
        return {"status": "pass", "phase": "eager", "note": "eager raises nothing"}
    run.switch()
    try:
        run.compiled(program)
    except (Exception, SystemExit):
        return {"status": "pass", "phase": "exit", "note": "both raise"}
    return {"status": "fail", "phase": "compare", "exceptions": describe_exception(error), "validation": True}


def _check_growth(program: LoadedProgram, limit: float, run: QueryRun) -> QueryAnswer:
    """Fail where compile time grows faster than the power `limit` of the number of repetitions of the program."""
    from repro_probe.embedded import growth  # imports torch

    graph = program.graph
    program.graph = growth.repeated(graph, 2)
    run.eager(program)
    run.switch()
    growth.without_native_compiler()

    def compile_repeated(count: int) -> None:
        forget_compiled()
        program.graph = growth.repeated(graph, count)
        run.compiled(program)

    try:
        # On a slower machine `repro.py` must give the same verdict.
        fails, words = growth.judge(*growth.measure(compile_repeated, limit), limit, in_search=True)
    except (Exception, SystemExit) as error:
        return {"status": "fail", "phase": run.phase, "exceptions": describe_exception(error)}
    if fails is None:
        return {"status": "infra", "phase": "compile", "note": words}
    if fails:
        return {"status": "fail", "phase": "compile", "growth": words}
    return {"status": "pass", "phase": "exit", "note": words}


def _eager_exception(program: LoadedProgram, run: QueryRun) -> BaseException | None:
    """Return the exception of the calls in eager, or None. An exception while the inputs are made is Invalid."""
    try:
        run.eager(program)
    except Invalid as invalid:
        if run.phase != "eager":
            raise
        return invalid.__cause__
    return None


def _origins(error: BaseException, text: str, path: str) -> list[str]:
    """Return the origins of a failure, or none when that raises: a hint must not change the verdict."""
    try:
        return origins(error, text, path)
    except Exception as problem:
        print(f"repro-kit: no origins of the failure: {problem!r}", file=sys.stderr)
        return []


def _compare(program: LoadedProgram, run: QueryRun, eager: Outcome, compiled: Outcome) -> ComparisonData:
    """Compare the outcomes. A difference is judged again before it counts as a failure."""
    from repro_probe.judge import compare_outputs, recheck
    from repro_probe.judge.comparison_tolerance import Tolerance

    if process_group.is_real(program.recipe["group"]):
        return recheck.compare_ranks(program, eager, compiled)
    if not compare_outputs.kinds_of_difference(eager, compiled, Tolerance(program.recipe)):
        return {}
    return recheck.reconsider(program, eager, compiled, functools.partial(_with_eager_random, program, run))


def _doubts(program: LoadedProgram, eager: Outcome) -> list[str]:
    """Return why the results of the program are not defined in eager; not on several ranks."""
    from repro_probe.judge.doubts import doubts  # imports torch

    return [] if process_group.is_real(program.recipe["group"]) else doubts(program, eager)


def _with_eager_random(program: LoadedProgram, run: QueryRun) -> Outcome:
    forget_compiled()
    set_config("inductor.fallback_random", True)
    with run.silent():
        return run.compiled(program)


def _eager(run: QueryRun) -> QueryAnswer:
    program = run.load()
    if program.recipe["validation"]:
        _eager_exception(program, run)  # to raise is what eager should do
    else:
        run.eager(program)
    return {"status": "pass", "phase": "eager"}


def _fake(run: QueryRun) -> QueryAnswer:
    request = run.request
    run.step("load")
    texts = request.get("texts") or [request["text"]]
    valid = [is_valid_under_fake(text, request.get("inputs"), first=at == 0) for at, text in enumerate(texts)]
    return {"status": "pass", "phase": "load", "valid": valid if "texts" in request else valid[0]}


def _record(run: QueryRun) -> QueryAnswer:
    from repro_probe.query import record_values

    program, request = run.load(), run.request
    recorder = record_values.ValueRecorder(request.get("values") or (), request.get("save"))
    try:
        values, later_calls = record_values.run(program, request["text"], recorder, run.step)
    except (Exception, SystemExit) as error:
        raise Invalid from error
    return {"status": "pass", "phase": "eager", "values": values, "later_calls": later_calls}


def _diverge(run: QueryRun) -> QueryAnswer:
    from repro_probe.query import diverge, diverge_backward

    program = run.load()
    run.step("compile")
    notes = []
    for backward in (False, True) if program.recipe["backward"] != "none" else (False,):
        first_names = diverge_backward.first_names if backward else diverge.first_names
        try:
            names = first_names(program, run.request["text"])
        except Exception as error:  # with other inputs and outputs the program may fail; the hint is left out then
            notes.append(f"no hint: {error!r}"[:500])
            continue
        if names:
            return {"status": "pass", "phase": "exit", "names": names, "backward": backward}
        forget_compiled()
    return {"status": "pass", "phase": "exit", "names": [], "note": "; ".join(notes)}


def _capabilities(run: QueryRun) -> QueryAnswer:
    from repro_probe.change import capabilities

    return {"status": "pass", "phase": "load", "levers": capabilities.find_capabilities()}


def _rounding(run: QueryRun) -> QueryAnswer:
    from repro_probe.query import explain_rounding

    program = run.load()
    run.step("compile")
    return {"status": "pass", "phase": "exit", "explained": explain_rounding.explain(program, run.request["text"])}


def _report(run: QueryRun) -> QueryAnswer:
    from repro_probe.query import places, report  # they import torch

    asked = run.request["report"]
    data: ReportData = {}
    if asked["run"] != "nothing":
        program = run.load()
        eagerly = functools.partial(run.eager, program)
        if asked["run"] == "eager":
            data = report.of_eager(eagerly)
        else:
            compiled = functools.partial(run.compiled, program)
            data = report.of_compiled(program, eagerly, compiled, functools.partial(_with_eager_random, program, run))
    try:
        data["places"] = places.find_places(asked["places"])
    except Exception as error:  # another torch is built otherwise; the rest of the answer stays
        data["places"] = []
        data.setdefault("missing", {})["places"] = f"this torch could not be searched: {error!r}"[:500]
    return {"status": "pass", "phase": "exit", "told": data}


_MODES: dict[str, Callable[[QueryRun], QueryAnswer]] = {
    "check": _check,
    "eager": _eager,
    "fake": _fake,
    "record": _record,
    "diverge": _diverge,
    "levers": _capabilities,
    "rounding": _rounding,
    "report": _report,
}
