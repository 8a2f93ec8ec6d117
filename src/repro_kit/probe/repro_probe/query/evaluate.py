"""Answer one request (docs/explanation/zygote.md) in this process."""

from __future__ import annotations

import ast
import functools
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, cast

from repro_probe.common.tracebacks import describe_exception
from repro_probe.protocol.failure_data import ComparisonData
from repro_probe.protocol.queries import Query, QueryAnswer, QueryReport, ReportData
from repro_probe.query.query_run import (
    Invalid,
    QueryRun,
    ReachedNative,
    eager_limit,
    forget_compiled,
    is_valid_under_fake,
    stop_at_native,
)
from repro_probe.run import process_group
from repro_probe.run.load_program import LoadedProgram, set_config

if TYPE_CHECKING:
    from repro_probe.run.outputs import Outcome  # this module imports torch


_MOST = 12  # a frame with more nodes than this is no hint
_KERNEL = re.compile(r"(?:cpp|(?:triton|mps)_\w{3})_fused_\w+")
_DEFINITION = re.compile(rf"({_KERNEL.pattern}) = async_compile\.")
_CONTAINERS = (list, tuple, set, frozenset)


def origins(error: BaseException, text: str, path: str) -> list[str]:
    """Return names that statements of the program assign to, and names of kernels that were generated for it.

    The names from the innermost frame come first.
    """
    line = re.compile(rf'File "{re.escape(path)}", line (\d+), in graph\b')
    names = _names(text)
    interpreted: dict[str, None] = {}
    further: dict[str, None] = {}
    for trace in _innermost_first(error):
        further |= dict.fromkeys(_kernels_at(trace))
        # In `run_node`, the interpreters of torch/fx/interpreter.py work on a single node.
        origins_of_frame = interpreted if trace.tb_frame.f_code.co_name == "run_node" else further
        nodes = _nodes_in(trace.tb_frame)
        for node in nodes if len(nodes) <= _MOST else ():
            lines = map(int, line.findall(str(node.meta.get("stack_trace") or "")))
            origins_of_frame |= {names[number]: None for number in lines if number in names}
    return list(interpreted | further)


def _names(text: str) -> dict[int, str]:
    """Return for each line of `graph` the name that its statement assigns to."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "graph"]
    assigned = [statement for function in functions for statement in function.body if isinstance(statement, ast.Assign)]
    return {
        number: statement.targets[0].id
        for statement in assigned
        if isinstance(statement.targets[0], ast.Name)
        for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def _innermost_first(error: BaseException | None) -> Iterator[TracebackType]:
    """Yield the traceback entries of `error` and its causes, beginning with the innermost of the root cause."""
    chain = {}
    while error is not None and id(error) not in chain:
        chain[id(error)] = error
        error = error.__cause__ or error.__context__ or getattr(error, "inner_exception", None)
    for link in reversed(list(chain.values())):
        entries, trace = [], link.__traceback__
        while trace is not None:
            entries.append(trace)
            trace = trace.tb_next
        yield from reversed(entries)


def _kernels_at(trace: TracebackType) -> list[str]:
    """Return the kernel that Inductor waits for (torch/_inductor/async_compile.py) or a generated module defines."""
    frame = trace.tb_frame
    if frame.f_code.co_name == "<module>" and "AsyncCompile" in frame.f_globals:
        code = linecache.getlines(frame.f_code.co_filename)[: trace.tb_lineno]
        started = [match[1] for match in map(_DEFINITION.match, code) if match]
        return started[-1:]
    if "_inductor" in frame.f_code.co_filename:
        return [
            f_local for f_local in frame.f_locals.values() if isinstance(f_local, str) and _KERNEL.fullmatch(f_local)
        ]
    return []


def _nodes_in(frame: FrameType) -> list[Any]:
    """Return the FX nodes in the local variables, and those that Inductor's IR in them was made from."""
    import torch

    nodes: dict[Any, None] = {}
    for value in list(frame.f_locals.values()):
        for item in value if type(value) in _CONTAINERS and len(value) <= _MOST else (value,):
            for node in _nodes_of(item, torch.fx.Node):
                nodes.setdefault(node)
    return list(nodes)


def _nodes_of(value: Any, kind: Any) -> list[Any]:
    if isinstance(value, kind):
        return [value]
    if not type(value).__module__.startswith("torch._inductor."):
        return []
    members = _read(value, "snodes") or [value]  # of a fused node of the scheduler
    nodes = []
    for member in members if isinstance(members, (list, tuple)) else [value]:
        for holder in (member, _read(member, "node"), _read(member, "data")):
            nodes += [node for node in _read(holder, "origins") or () if isinstance(node, kind)]
    return nodes


def _read(value: Any, name: str) -> Any:
    """Return an instance's own attribute. Properties are not evaluated, since they may raise or do work."""
    return getattr(value, "__dict__", {}).get(name)


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
        apart = [*filter(None, [comparison["difference"]]), *comparison.get("also", ())]
        comparison["doubts"] = _doubts(program, eager, [each["where"] for each in apart])
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
    from repro_probe.judge.compare_outputs import Tolerance

    if process_group.is_real(program.recipe["group"]):
        return recheck.compare_ranks(program, eager, compiled)
    if not compare_outputs.kinds_of_difference(eager, compiled, Tolerance(program.recipe)):
        return {}
    return recheck.reconsider(program, eager, compiled, functools.partial(_with_eager_random, program, run))


def _doubts(program: LoadedProgram, eager: Outcome, where: Sequence[str] = ()) -> list[str]:
    """Return why the results `where` (all) of the program are not defined in eager; not on several ranks."""
    from repro_probe.judge.doubts import doubts  # imports torch

    return [] if process_group.is_real(program.recipe["group"]) else doubts(program, eager, where)


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
    notes, harmless, right = [], list[str](), list[str]()
    order = (True, False) if run.request.get("gradients") else (False, True)
    for backward in order if program.recipe["backward"] != "none" else (False,):
        first_names = diverge_backward.first_names if backward else diverge.first_names
        try:
            found = first_names(program, run.request["text"])
        except Exception as error:  # with other inputs and outputs the program may fail; the hint is left out then
            notes.append(f"no hint: {error!r}"[:500])
            continue
        harmless += found.harmless
        right += found.right
        if found.names:
            seen: QueryAnswer = {"names": found.names, "backward": backward, "harmless": harmless, "unsuspected": right}
            return {"status": "pass", "phase": "exit", **seen}
        forget_compiled()
    note = "; ".join(notes)
    return {"status": "pass", "phase": "exit", "names": [], "harmless": harmless, "unsuspected": right, "note": note}


def _capabilities(run: QueryRun) -> QueryAnswer:
    from repro_probe.change import subsystems

    return {"status": "pass", "phase": "load", "levers": subsystems.find_capabilities()}


def _rounding(run: QueryRun) -> QueryAnswer:
    from repro_probe.query import report

    program = run.load()
    run.step("compile")
    return {"status": "pass", "phase": "exit", "explained": report.explain(program, run.request["text"])}


def _report(run: QueryRun) -> QueryAnswer:
    from repro_probe.query import places, report  # they import torch

    asked = run.request["report"]
    data: ReportData = {}
    if asked["run"] != "nothing":
        program = run.load()
        eagerly = functools.partial(run.eager, program)
        if asked["run"] == "eager":
            data = report.of_eager(eagerly)
        elif asked["run"] != "compiled":
            if asked["run"] == "native":
                stop_at_native()
            data = report.of_generated(functools.partial(run.compiled, program, asked["run"]))
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
