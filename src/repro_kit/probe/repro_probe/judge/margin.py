"""Find a tolerance with which a plain comparison with eager shows the bug, and accepts eager's own rounding."""

from __future__ import annotations

import math

from repro_probe.judge import compare_outputs
from repro_probe.judge.comparison_tolerance import WITHOUT_REFERENCE, usual_tolerance
from repro_probe.run.outputs import Leaf, Outcome

_MARGIN = 30.0  # the most that eager's own error is multiplied by: a looser check would miss a bug that is half fixed


def plain_tolerance(eager: Outcome, compiled: Outcome, best: Outcome | None, where: str) -> tuple[float, float] | None:
    """Return (rtol, atol) for a difference of values at `where`; None where the usual tolerance is enough.

    A right result may be as far from the result in double precision (`best`) as eager's is, in the other direction.
    """
    places = {name: leaf for name, leaf in eager.places().items() if leaf is not None and _is_float(leaf)}
    others = {name: leaf for name, leaf in compiled.places().items() if leaf is not None}
    usual = [usual_tolerance(leaf.value.dtype) for leaf in places.values()]
    # A comparison has one tolerance for all of its tensors.
    rtol, atol = (max(values) for values in zip(*usual))
    if best is None:
        return WITHOUT_REFERENCE * rtol, WITHOUT_REFERENCE * atol
    exact = best.places()
    if all(
        2 * _beyond(leaf, exact.get(name), limits[0] / 2) <= limits[1]
        for (name, leaf), limits in zip(places.items(), usual)
    ):
        return None
    right = max(2 * _beyond(leaf, exact.get(name), rtol / 2) for name, leaf in places.items())
    wrong = _beyond(others[where], places[where], rtol)
    if max(right, atol) >= wrong:
        return None  # too close to tell apart
    return rtol, max(atol, float(f"{min(math.sqrt(right * wrong), _MARGIN * right):.2g}"))


def _is_float(leaf: Leaf) -> bool:
    return leaf.is_tensor and (leaf.value.is_floating_point() or leaf.value.is_complex())


def _beyond(leaf: Leaf, other: Leaf | None, rtol: float) -> float:
    """Return the largest difference of two results, less the share `rtol` of the element."""
    if other is None or not other.is_tensor or other.value.shape != leaf.value.shape:
        return 0.0
    a, b = compare_outputs.wide(leaf.value), compare_outputs.wide(other.value)
    gap = (a - b).abs() - rtol * b.abs()
    gap = gap[gap.isfinite()]
    return max(float(gap.max()), 0.0) if gap.numel() else 0.0
