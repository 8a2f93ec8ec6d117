"""Compare eager and compiled with double precision, output by output."""

from __future__ import annotations

import torch

from repro_probe.judge import compare_outputs
from repro_probe.judge.compare_outputs import OF_ROUNDING, Evidence, wide
from repro_probe.judge.comparison_tolerance import Tolerance
from repro_probe.protocol.failure_data import ErrorRow
from repro_probe.run.outputs import Leaf, Outcome

#: A compiled element may be this many times further from double precision than eager is, where eager is furthest: at
#: this element, in its nudged runs, or by the spacing of its dtype.
_ROOM = 16.0


def error_table(eager: Outcome, compiled: Outcome, tolerance: Tolerance, evidence: Evidence) -> list[ErrorRow]:
    """Return one row for every result whose values differ under `tolerance`; empty where another kind differs too.

    Does eager's own rounding explain a difference? This is stricter than whether a result is right (`differences`):
    every single element that differs must be within reach of rounding, since one wrong element can hide behind the
    large rounding errors of other elements.
    """
    plain = list(compare_outputs.differences(eager, compiled, tolerance, Evidence(ignore=evidence.ignore)))
    if any(difference["kind"] not in OF_ROUNDING for difference in plain):
        return []
    left = {each["where"] for each in compare_outputs.differences(eager, compiled, tolerance.excusing(), evidence)}
    apart, others = {each["where"] for each in plain}, compiled.places()
    pairs = ((where, a, others.get(where)) for where, a in eager.places().items() if where in apart)
    return [
        _row(where, a, b, tolerance, evidence, excused=where not in left)
        for where, a, b in pairs
        if a is not None and b is not None
    ]


def explained(rows: list[ErrorRow]) -> bool:
    """Whether rounding explains every row, and there is one."""
    return bool(rows) and all(row["explained"] for row in rows)


def _row(where: str, a: Leaf, b: Leaf, tolerance: Tolerance, evidence: Evidence, *, excused: bool) -> ErrorRow:
    comparable = a.is_tensor and b.is_tensor and a.value.shape == b.value.shape
    if not comparable:
        return {"where": where, "dtype": a.type, "elements": 1, "apart": 1.0, "explained": excused}
    dtype = a.value.dtype
    errors = _Errors(where, a.value, b.value, evidence)
    rtol, atol = tolerance.of(dtype) if errors.inexact else (0.0, 0.0)
    apart = ~torch.isclose(errors.compiled, errors.eager, rtol=rtol, atol=atol, equal_nan=True)
    return {
        "where": where,
        "dtype": str(dtype).removeprefix("torch."),
        "elements": apart.numel(),
        "apart": float(apart.double().mean()),
        "gap": _largest([(errors.compiled - errors.eager)]),
        "eager": None if errors.best is None else _largest([errors.eager - errors.best]),
        "compiled": None if errors.best is None else _largest([errors.compiled - errors.best]),
        "nudged": _largest([run - errors.eager for run in errors.nudged]) if errors.nudged else None,
        "size": compare_outputs.rms(errors.eager),
        "explained": excused and (not errors.inexact or not bool((apart & errors.beyond_rounding()).any())),
    }


class _Errors:
    """One result of eager and of compiled, in double precision, with the results that these are held against."""

    def __init__(self, where: str, eager: torch.Tensor, compiled: torch.Tensor, evidence: Evidence) -> None:
        self.inexact = eager.is_floating_point() or eager.is_complex()
        self.epsilon = torch.finfo(eager.dtype).eps if self.inexact else 0.0
        self.eager, self.compiled = wide(eager), wide(compiled)
        self.best = self._alike(evidence.reference.get(where))
        runs = (self._alike(run.get(where)) for run in evidence.nudged)
        self.nudged = [run for run in runs if run is not None]

    def _alike(self, leaf: Leaf | None) -> torch.Tensor | None:
        fits = leaf is not None and leaf.is_tensor and leaf.value.shape == self.eager.shape
        return wide(leaf.value) if fits and leaf is not None else None

    def beyond_rounding(self) -> torch.Tensor:
        """Return a mask of the elements of `compiled` that no rounding explains: too far from double precision."""
        truth = self.eager if self.best is None else self.best
        reach = self.epsilon * truth.abs()
        for other in [self.eager, *self.nudged]:
            for near in (truth, self.eager):
                gap = (other - near).abs()
                reach = torch.maximum(reach, torch.where(gap.isfinite(), gap, torch.zeros_like(gap)))
        # Where eager overflows and double precision does not, eager's own error says nothing.
        overflown = truth.isfinite() & ~self.eager.isfinite()
        usual = torch.clamp(truth.abs(), min=compare_outputs.rms(truth)) * self.epsilon
        reach = torch.where(overflown, torch.maximum(reach, usual), reach)
        return ~((self.compiled - truth).abs() <= _ROOM * reach) & ~_same(self.compiled, truth)


def _same(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (first == second) | (first.isnan() & second.isnan())


def _largest(gaps: list[torch.Tensor]) -> float:
    finite = [gap.abs()[gap.isfinite()] for gap in gaps]
    return max((float(sizes.max()) for sizes in finite if sizes.numel()), default=0.0)
