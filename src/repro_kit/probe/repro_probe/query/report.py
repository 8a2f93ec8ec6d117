"""Answer what a report says of a program beyond its verdict: values, double precision, precision casts, kernels."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from repro_probe.change import subsystems
from repro_probe.judge import compare_outputs, double_precision, recheck
from repro_probe.judge.compare_outputs import OF_VALUES, Evidence, Tolerance
from repro_probe.protocol.failure_data import DifferenceData, ErrorRow
from repro_probe.protocol.queries import DoubleData, KernelData, ReportData, RoundingData, TriedSetting
from repro_probe.query import diverge
from repro_probe.query.query_run import ReachedNative
from repro_probe.run import outputs
from repro_probe.run.load_program import LoadedProgram, set_config
from repro_probe.run.outputs import Outcome

#: Settings that exist to make compiled code round as eager does, or to draw eager's random numbers.
_RESTORING = re.compile(r"emulate_precision_casts$|\bnumerics|eager_numerics\.|fallback_random$")

_SHRUNK = 0.5  # the share of the largest difference that a setting may leave to count as restoring

Setting = tuple[str, Any]


def explain(program: LoadedProgram, text: str) -> RoundingData:
    """Return the errors of `program`, how far one rounding error grows, and what restores eager's rounding."""
    eager = outputs.run(program, program.graph)
    compiled = outputs.run(program, program.compiled())
    with_eager_random = functools.partial(under, program, [("inductor.fallback_random", True)])
    judged = recheck.reconsider(program, eager, compiled, with_eager_random, with_errors=True)
    rows = judged.get("errors", [])
    return {
        "errors": rows,
        "rounding": bool(judged.get("rounding")),
        "growth": max(map(_growth, rows), default=0.0),
        "first": _first(program, text),
        "tried": _tried(program, eager, _gap(program, eager, compiled)),
    }


def _growth(row: ErrorRow) -> float:
    """Return how many times larger than one rounding error the effect of disturbed rounding is."""
    nudged, size, dtype = row.get("nudged"), row.get("size"), getattr(torch, row["dtype"], None)
    if not nudged or not size or not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        return 0.0
    return nudged / (size * torch.finfo(dtype).eps)


def _first(program: LoadedProgram, text: str) -> list[str]:
    try:
        return diverge.first_names(program, text, exactly=True).names
    except Exception:  # with all values as outputs the program may not compile; the hint is left out then
        return []


def _gap(program: LoadedProgram, eager: Outcome, compiled: Outcome) -> float:
    """Return the largest difference of any result, however small."""
    exactly = Tolerance({**program.recipe, "rtol": 0.0, "atol": 0.0})
    return max((part["max_abs"] for part in compare_outputs.differences(eager, compiled, exactly)), default=0.0)


def _tried(program: LoadedProgram, eager: Outcome, before: float) -> list[TriedSetting]:
    """Try all restoring settings together, then each alone until one is enough."""
    settings: list[Setting] = [
        (setting["name"], True)
        for setting in subsystems.find_capabilities().get("settings", [])
        if _RESTORING.search(setting["name"]) and setting["value"] is False
    ]
    if program.recipe["backend"] != "inductor" or not settings:
        return []
    if not eager.random:
        settings = [setting for setting in settings if "random" not in setting[0]]
    together = _try(program, eager, settings, before)
    if not together["agrees"] or len(settings) == 1:
        return [together]
    tried = []
    for setting in settings:
        tried.append(_try(program, eager, [setting], before))
        if tried[-1]["agrees"]:
            return tried[-1:]
    return [together]


def _try(program: LoadedProgram, eager: Outcome, settings: list[Setting], before: float) -> TriedSetting:
    words = ", ".join(f"{name}={value}" for name, value in settings)
    compiled = under(program, settings)
    gap = _gap(program, eager, compiled)
    differs = any(compare_outputs.differences(eager, compiled, Tolerance(program.recipe)))
    # A result that barely exceeds the tolerance falls below it by any change: the difference itself must shrink.
    return {"setting": words, "agrees": not differs and gap <= _SHRUNK * before, "gap": gap}


def under(program: LoadedProgram, settings: list[Setting]) -> Outcome:
    """Return the outcome of the program compiled anew under `settings`, which are taken back afterwards."""
    torch._dynamo.reset()
    for name, value in settings:
        set_config(name, value)
    try:
        return outputs.run(program, program.compiled())
    finally:
        for name, value in settings:
            set_config(name, not value)
        torch._dynamo.reset()


_CASTS = "emulate_precision_casts"  # of torch._inductor.config
#: Kernels in the code that Inductor generates (torch/_inductor/codegen/wrapper.py).
_CPP = re.compile(r"^(?P<name>\w+) = async_compile\.cpp\w*\(.*?r?'''(?P<code>.*?)'''", re.M | re.S)
_TRITON = re.compile(r"^(?P<name>\w+) = async_compile\.triton\('\w+', '''(?P<code>.*?)'''", re.M | re.S)
#: What stands before a kernel and says nothing of it: includes with a path of this machine, imports, tuning data.
_NOISE = re.compile(r"^\s*#(?:include|pragma GCC)\b.*\n", re.M)

Run = Callable[[], Outcome]


def of_eager(run: Run) -> ReportData:
    """Return the seconds of a run in eager; `run` makes it."""
    started = time.perf_counter()
    run()
    return {"eager_seconds": time.perf_counter() - started}


def of_generated(compiled: Run) -> ReportData:
    """Return the kernels that `compiled` generates before it ends by ReachedNative, or otherwise."""
    codes: list[str] = []
    with _generated(codes), contextlib.suppress(Exception, ReachedNative):  # how it ends is known
        compiled()
    return {"kernels": kernels_in(codes), "missing": {}}


def of_compiled(program: LoadedProgram, eagerly: Run, compiled: Run, with_eager_random: Run) -> ReportData:
    """Return what runs of `program` show, in eager and compiled."""
    started = time.perf_counter()
    eager = eagerly()
    data: ReportData = {"eager_seconds": time.perf_counter() - started, "missing": {}}
    codes: list[str] = []
    with _generated(codes):
        try:
            outcome = compiled()
        except Exception as error:  # the failure itself, which is known; what was generated before it is of use
            data["missing"]["differences"] = f"the compiled program raises {type(error).__name__}"
            return {**data, "kernels": kernels_in(codes)}
    data["kernels"] = kernels_in(codes)
    if not program.recipe["check"]:
        return data
    judged = recheck.reconsider(program, eager, outcome, with_eager_random)
    worst = judged.get("difference")
    data["differences"] = [worst, *judged.get("also", [])] if worst else []
    of_values = [each for each in data["differences"] if each["kind"] in OF_VALUES]
    if of_values:
        best = None if eager.random else double_precision.in_double(program)
        if best is None:
            words = "it draws random numbers" if eager.random else "an operator has no kernel for float64"
            data["missing"]["double"] = f"the program cannot be run in float64: {words}"
        else:
            data["double"] = {difference["where"]: _element(best, difference) for difference in of_values}
            places = dict.fromkeys(difference["where"] for difference in of_values)
            data["errors"] = [row for where in places for row in _errors(where, eager, outcome, best)]
        _look_at_casts(data, program, eager, outcome, best)
    return data


def _look_at_casts(
    data: ReportData, program: LoadedProgram, eager: Outcome, compiled: Outcome, best: Outcome | None
) -> None:
    """Add whether the difference is still there once Inductor rounds to narrow dtypes as eager does."""
    if program.recipe["backend"] != "inductor":
        data["missing"]["with_casts"] = "the setting is one of Inductor's, which does not run here"
        return
    from torch._inductor import config

    if not hasattr(config, _CASTS):
        data["missing"]["with_casts"] = f"this torch has no setting {_CASTS}"
        return
    tolerance, evidence = Tolerance(program.recipe), Evidence(best)

    def differs(outcome: Outcome) -> bool:
        found = compare_outputs.differences(eager, outcome, tolerance, evidence)
        return any(each["kind"] in OF_VALUES for each in found)

    if not differs(compiled):
        data["missing"]["with_casts"] = "the difference shows only when eager's random numbers are used"
        return
    data["with_casts"] = differs(under(program, [(f"inductor.{_CASTS}", True)]))


def _errors(where: str, eager: Outcome, compiled: Outcome, best: Outcome) -> Iterator[DoubleData]:
    """Yield the largest errors of one result against double precision."""
    sides = [run.places().get(where) for run in (eager, compiled, best)]
    tensors = [side.value for side in sides if side is not None and side.is_tensor]
    if len({tuple(tensor.shape) for tensor in tensors}) != 1 or len(tensors) != len(sides):
        return
    *wrong, right = map(compare_outputs.wide, tensors)
    gaps = [(tensor - right).abs() for tensor in wrong]
    largest = [float(gap[gap.isfinite()].max()) if gap.isfinite().any() else 0.0 for gap in gaps]
    alike = [(tensor == right) | (tensor.isnan() & right.isnan()) for tensor in wrong]
    apart = [int((~gap.isfinite() & ~same).sum()) for gap, same in zip(gaps, alike)]
    dtype = str(tensors[0].dtype).replace("torch.", "")
    yield {
        "where": where,
        "dtype": dtype,
        "eager": largest[0],
        "compiled": largest[1],
        "eager_apart": apart[0],
        "compiled_apart": apart[1],
    }


def _element(best: Outcome, difference: DifferenceData) -> str:
    """Return the first wrong element in double precision; "" where it has no index there."""
    leaf, index = best.places().get(difference["where"]), difference.get("index")
    if leaf is None or not leaf.is_tensor or index is None or len(index) != leaf.value.dim():
        return ""
    return str(leaf.value[tuple(index)].item())


@contextlib.contextmanager
def _generated(codes: list[str]) -> Iterator[None]:
    """Collect the code that Inductor generates in the block."""
    try:
        from torch._inductor.graph import GraphLowering
    except ImportError:
        yield
        return
    before: Any = getattr(GraphLowering, "save_output_code", None)
    GraphLowering.save_output_code = codes.append
    try:
        yield
    finally:
        GraphLowering.save_output_code = before


def kernels_in(codes: list[str]) -> list[KernelData]:
    """Return the kernels in generated code, each once."""
    kernels: list[KernelData] = []
    for code in codes:
        for language, pattern in (("cpp", _CPP), ("triton", _TRITON)):
            for found in pattern.finditer(code):
                body = found["code"]
                body = body[body.find("@triton.jit") :] if "@triton.jit" in body else _NOISE.sub("", body)
                kernel: KernelData = {"name": found["name"], "language": language, "code": body.strip()}
                if kernel not in kernels:
                    kernels.append(kernel)
    return kernels
