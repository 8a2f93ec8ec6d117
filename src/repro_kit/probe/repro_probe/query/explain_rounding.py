"""Explain a difference that is rounding: the errors, where it begins, and what restores eager's rounding.

Every setting is tried: the program is compiled anew under it, and its results are compared with eager's.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import torch

from repro_probe.change import capabilities
from repro_probe.judge import compare_outputs, recheck
from repro_probe.judge.comparison_tolerance import Tolerance
from repro_probe.protocol.failure_data import ErrorRow
from repro_probe.protocol.queries import RoundingData, TriedSetting
from repro_probe.query import diverge
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
        return diverge.first_names(program, text, exactly=True)
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
        for setting in capabilities.find_capabilities().get("settings", [])
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
