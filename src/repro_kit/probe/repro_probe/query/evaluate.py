"""Answer one request (docs/explanation/zygote.md) in this process."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from repro_probe.change import subsystem_switches
from repro_probe.common.describe_exception import describe_exception
from repro_probe.common.stacks import dump_now
from repro_probe.protocol.failure_data import ComparisonData
from repro_probe.protocol.findings import APPLIED
from repro_probe.protocol.queries import Query, QueryAnswer, QueryPhase, QueryReport, Until
from repro_probe.protocol.recipe_data import RecipeData
from repro_probe.protocol.report_data import ReportData
from repro_probe.query.eager_limit import eager_limit
from repro_probe.query.origins import origins
from repro_probe.run import process_group, rank_watch
from repro_probe.run.load_program import LoadedProgram, apply, load, set_config

if TYPE_CHECKING:
    from repro_probe.run import outputs
    from repro_probe.run.outputs import Outcome  # this module imports torch


#: The modes in which every rank of a real process group runs the program. The others need no right values.
_OF_ALL_RANKS = ("check", "eager", "diverge")


class Invalid(Exception):
    """The program fails without the compiler too. The failure is `__cause__`."""


def evaluate(request: Query, tell: Callable[[QueryReport], None], threads: int | None = None) -> QueryAnswer:
    """Return the answer to `request`; the server adds the rest of the reply.

    `tell` gets ``{"phase": …}`` before each step. `threads` is the machine's default number of threads, for a process
    that has changed its own number.
    """
    step = _PhaseReporter(tell)
    try:
        return _MODES[request["mode"]](request, step, threads)
    except Invalid as invalid:
        return {"status": "invalid", "phase": step.phase, "exceptions": describe_exception(invalid.__cause__)}


class _PhaseReporter:
    """Reports each phase before the phase begins."""

    def __init__(self, tell: Callable[[QueryReport], None]) -> None:
        self._tell = tell
        self.phase: QueryPhase | None = None

    def __call__(self, phase: QueryPhase) -> None:
        if phase != self.phase:
            self.phase = phase
            self._tell({"phase": phase})

    def stuck(self) -> None:
        """Report that the query will never end, after writing the stack that shows where it waits."""
        dump_now()
        self._tell({"stuck": True})


def _load(request: Query, step: _PhaseReporter, threads: int | None) -> LoadedProgram:
    step("load")

    def prepare(recipe: RecipeData) -> None:
        _join_group(request, recipe, threads, step)
        apply(recipe, threads)

    try:
        program = load(request["text"], request.get("inputs"), prepare)
        if request["mode"] in _OF_ALL_RANKS and process_group.runs_peer(program.recipe["group"]):
            program.become_peer()
        return program
    except (Exception, SystemExit) as error:
        raise Invalid from error


def _join_group(request: Query, recipe: RecipeData, threads: int | None, step: _PhaseReporter) -> None:
    """Make the process group that the program needs. The other ranks of a real group answer the request too.

    A query whose ranks all wait for ever is ended, as at its time-out.
    """
    group = recipe["group"]
    real = process_group.is_real(group) and request["mode"] in _OF_ALL_RANKS
    early = process_group.read_too_early(request["text"]) if process_group.is_real(group) else None
    if early is not None:
        raise ValueError(f"{early} is read before wait_tensor")
    peers: set[int] = set()
    judged = "rank" not in request
    if group is not None and real and judged:
        peers = process_group.start_peers(
            group, lambda rank: evaluate({**request, "rank": rank}, lambda _: None, threads)["status"] == "pass"
        )
    elif group is not None and real:
        group["rank"] = request["rank"]
    process_group.join(recipe, fake=not real)
    if group is not None and real:
        rank = process_group.whole(group)["rank"]
        rank_watch.watch(rank, group["size"], peers, step.stuck if judged else None)


def _run_eager(program: LoadedProgram, step: _PhaseReporter) -> Outcome:
    from repro_probe.run import outputs

    try:
        return outputs.run(
            program, program.graph, lambda next_step, _: step("load" if next_step == "calls" else "eager")
        )
    except (Exception, SystemExit) as error:
        raise Invalid from error


def _run_compiled(program: LoadedProgram, step: _PhaseReporter, until: Until | None = None) -> Outcome:
    from repro_probe.run import outputs

    def phases(next_step: outputs.Step, number: int) -> None:
        if next_step == "backward" and until == "native_backward":
            _stop_at_native()
        if next_step == "forward":
            step("run" if number else "compile")
        else:
            step("load" if next_step == "calls" else "backward")

    with program.compiled_autograd():
        if program.recipe["warm_caches"]:
            outputs.run(program, program.compiled(), phases)
            _forget_compiled()
        return outputs.run(program, program.compiled(), phases)


def _forget_compiled() -> None:
    import torch

    torch._dynamo.reset()


class ReachedNative(BaseException):
    """Raised when the generated code goes to a native compiler. No `except Exception` may catch it."""


def _stop_at_native() -> None:
    """Make the next call of a native compiler raise ReachedNative.

    They are called in torch/_inductor/async_compile.py, and for AOTInductor in torch/_inductor/codecache.py.
    """
    from torch._inductor import codecache
    from torch._inductor.async_compile import AsyncCompile

    def stop(self: Any, *arguments: Any, **named: Any) -> None:
        raise ReachedNative

    for name in ("cpp", "cpp_pybinding", "triton"):
        if hasattr(AsyncCompile, name):
            setattr(AsyncCompile, name, stop)
    if hasattr(codecache, "AotCodeCompiler"):
        setattr(codecache.AotCodeCompiler, "compile", stop)  # noqa: B010 - mypy knows it as a class method


def _check(request: Query, step: _PhaseReporter, threads: int | None) -> QueryAnswer:
    program = _load(request, step, threads)
    if program.recipe["validation"]:
        return _check_validation(program, request, step)
    if program.recipe["growth"] is not None:
        return _check_growth(program, program.recipe["growth"], request, step)
    with eager_limit(request["ends"]):
        eager = _run_eager(program, step)
    until = request.get("until")
    if until == "native" or (until and program.recipe["backward"] == "none"):
        _stop_at_native()
    switch = request.get("switch")
    if switch is not None:
        subsystem_switches.install(switch, os.path.join(request["scratch"], APPLIED))
    try:
        compiled = _run_compiled(program, step, until)
    except ReachedNative:
        return {"status": "pass", "phase": step.phase, "note": "stopped before the native compiler"}
    except (Exception, SystemExit) as error:
        named, phase = _origins(error, request["text"], program.namespace["__file__"]), step.phase
        reply: QueryAnswer = {"status": "fail", "phase": phase, "exceptions": describe_exception(error)}
        return {**reply, "origins": named, "doubts": _doubts(program, eager)}
    comparison: ComparisonData = {}
    if program.recipe["check"]:
        step("compare")
        comparison = _compare(program, eager, compiled)
    failed = comparison.get("difference") is not None
    if failed:
        comparison["doubts"] = _doubts(program, eager)
    verdict: QueryAnswer = {"status": "fail" if failed else "pass", "phase": "compare" if failed else "exit"}
    return {**verdict, **cast(QueryAnswer, comparison)}


def _check_validation(program: LoadedProgram, request: Query, step: _PhaseReporter) -> QueryAnswer:
    """Fail where eager raises an exception and the compiled program raises none; pass where both or neither raises."""
    error = _eager_exception(program, step)
    if error is None:
        return {"status": "pass", "phase": "eager", "note": "eager raises nothing"}
    switch = request.get("switch")
    if switch is not None:
        subsystem_switches.install(switch, os.path.join(request["scratch"], APPLIED))
    try:
        _run_compiled(program, step)
    except (Exception, SystemExit):
        return {"status": "pass", "phase": "exit", "note": "both raise"}
    return {"status": "fail", "phase": "compare", "exceptions": describe_exception(error), "validation": True}


def _check_growth(program: LoadedProgram, limit: float, request: Query, step: _PhaseReporter) -> QueryAnswer:
    """Fail where compile time grows faster than the power `limit` of the number of repetitions of the program."""
    from repro_probe.embedded import growth  # imports torch

    graph = program.graph
    program.graph = growth.repeated(graph, 2)
    _run_eager(program, step)
    switch = request.get("switch")
    if switch is not None:
        subsystem_switches.install(switch, os.path.join(request["scratch"], APPLIED))
    growth.without_native_compiler()

    def compile_repeated(count: int) -> None:
        _forget_compiled()
        program.graph = growth.repeated(graph, count)
        _run_compiled(program, step)

    try:
        # On a slower machine `repro.py` must still tell the same.
        fails, words = growth.judge(*growth.measure(compile_repeated, limit), limit, in_search=True)
    except (Exception, SystemExit) as error:
        return {"status": "fail", "phase": step.phase, "exceptions": describe_exception(error)}
    if fails is None:
        return {"status": "infra", "phase": "compile", "note": words}
    if fails:
        return {"status": "fail", "phase": "compile", "growth": words}
    return {"status": "pass", "phase": "exit", "note": words}


def _eager_exception(program: LoadedProgram, step: _PhaseReporter) -> BaseException | None:
    """Return the exception of the calls in eager, or None. An exception while the inputs are made is Invalid."""
    try:
        _run_eager(program, step)
    except Invalid as invalid:
        if step.phase != "eager":
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


def _compare(program: LoadedProgram, eager: Outcome, compiled: Outcome) -> ComparisonData:
    """Compare the outcomes. A difference is judged again before it counts as a failure."""
    from repro_probe.judge import compare_outputs, recheck
    from repro_probe.judge.comparison_tolerance import Tolerance

    if process_group.is_real(program.recipe["group"]):
        return recheck.compare_ranks(program, eager, compiled)
    if not compare_outputs.kinds_of_difference(eager, compiled, Tolerance(program.recipe)):
        return {}
    with_eager_random = functools.partial(_with_eager_random, program)
    return recheck.reconsider(program, eager, compiled, with_eager_random)


def _doubts(program: LoadedProgram, eager: Outcome) -> list[str]:
    """Return why the results of the program are not defined in eager; on several ranks nobody looks."""
    from repro_probe.judge.doubts import doubts  # imports torch

    return [] if process_group.is_real(program.recipe["group"]) else doubts(program, eager)


def _with_eager_random(program: LoadedProgram) -> Outcome:
    _forget_compiled()
    set_config("inductor.fallback_random", True)
    return _run_compiled(program, _PhaseReporter(lambda _: None))


def _eager(request: Query, step: _PhaseReporter, threads: int | None) -> QueryAnswer:
    program = _load(request, step, threads)
    if program.recipe["validation"]:
        _eager_exception(program, step)  # to raise is what eager should do
    else:
        _run_eager(program, step)
    return {"status": "pass", "phase": "eager"}


def _fake(request: Query, step: _PhaseReporter, threads: int | None) -> QueryAnswer:
    from repro_probe.query import fake

    texts = request.get("texts") or [request["text"]]
    step("load")
    valid = [fake.is_valid(text, request.get("inputs"), first=at == 0) for at, text in enumerate(texts)]
    return {"status": "pass", "phase": "load", "valid": valid if "texts" in request else valid[0]}


def _record(request: Query, step: _PhaseReporter, threads: int | None) -> QueryAnswer:
    from repro_probe.query import record_values

    program = _load(request, step, threads)
    recorder = record_values.ValueRecorder(request.get("values") or (), request.get("save"))
    try:
        recording = record_values.run(program, request["text"], recorder, step)
    except (Exception, SystemExit) as error:
        raise Invalid from error
    values, later_calls = recording["values"], recording["later_calls"]
    return {"status": "pass", "phase": "eager", "values": values, "later_calls": later_calls}


def _diverge(request: Query, step: _PhaseReporter, threads: int | None) -> QueryAnswer:
    from repro_probe.query import diverge, diverge_backward

    program = _load(request, step, threads)
    step("compile")
    differentiated = program.recipe["backward"] != "none"
    notes = []
    for backward in (False, True) if differentiated else (False,):
        first_names = diverge_backward.first_names if backward else diverge.first_names
        try:
            names = first_names(program, request["text"])
        except Exception as error:  # with other inputs and outputs the program may fail; the hint is left out then
            notes.append(f"no hint: {error!r}"[:500])
            continue
        if names:
            return {"status": "pass", "phase": "exit", "names": names, "backward": backward}
        _forget_compiled()
    return {"status": "pass", "phase": "exit", "names": [], "note": "; ".join(notes)}


def _capabilities(request: Query, step: _PhaseReporter, threads: int | None) -> QueryAnswer:
    from repro_probe.change import capabilities

    return {"status": "pass", "phase": "load", "levers": capabilities.find_capabilities()}


def _rounding(request: Query, step: _PhaseReporter, threads: int | None) -> QueryAnswer:
    from repro_probe.query import explain_rounding

    program = _load(request, step, threads)
    step("compile")
    return {"status": "pass", "phase": "exit", "explained": explain_rounding.explain(program, request["text"])}


def _report(request: Query, step: _PhaseReporter, threads: int | None) -> QueryAnswer:
    from repro_probe.query import places, report  # they import torch

    asked = request["report"]
    data: ReportData = {}
    if asked["run"] != "nothing":
        program = _load(request, step, threads)
        eagerly = functools.partial(_run_eager, program, step)
        if asked["run"] == "eager":
            data = report.of_eager(eagerly)
        else:
            compiled = functools.partial(_run_compiled, program, step)
            data = report.of_compiled(program, eagerly, compiled, functools.partial(_with_eager_random, program))
    try:
        data["places"] = places.find_places(asked["places"])
    except Exception as error:  # another torch is built otherwise; the rest of the answer stays
        data["places"] = []
        data.setdefault("missing", {})["places"] = f"this torch could not be searched: {error!r}"[:500]
    return {"status": "pass", "phase": "exit", "told": data}


_MODES = {
    "check": _check,
    "eager": _eager,
    "fake": _fake,
    "record": _record,
    "diverge": _diverge,
    "levers": _capabilities,
    "rounding": _rounding,
    "report": _report,
}
