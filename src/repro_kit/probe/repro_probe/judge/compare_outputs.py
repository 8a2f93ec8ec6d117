"""Compare the outcomes of two runs.

Values are compared as in `torch.testing.assert_close`. Where that fails, they are compared as in
`torch._dynamo.utils.same`: with a reference in double precision, the compiled result is wrong only when it is further
from the reference than eager's result is.
"""

from __future__ import annotations

import cmath
import copy
import enum
import math
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch

from repro_probe.judge.choices import Choice
from repro_probe.protocol.failure_data import KINDS_OF_DIFFERENCE, DifferenceData, place_of
from repro_probe.protocol.recipe_data import RecipeData
from repro_probe.run.outputs import Leaf, Outcome

#: torch.testing's defaults (torch/testing/_comparison.py), (rtol, atol).
_TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
_COARSE = (0.25, 0.0625)  # for 8-bit floats, which have two or three bits of mantissa
#: The factor on the usual tolerance when there is no reference in double precision.
WITHOUT_REFERENCE = 10.0


def usual_tolerance(dtype: torch.dtype) -> tuple[float, float]:
    """Return the usual (rtol, atol) for `dtype`."""
    return _TOLERANCES.get(dtype, _COARSE)


class Tolerance:
    """The tolerance that the recipe states, else the usual tolerance of the dtype, times `factor`."""

    def __init__(self, recipe: RecipeData, factor: float = 1.0) -> None:
        self.rtol, self.atol, self.factor = recipe["rtol"], recipe["atol"], factor
        #: Whether the recipe states a tolerance. Rounding beyond that is no excuse then.
        self.stated = self.rtol is not None or self.atol is not None

    def excusing(self) -> Tolerance:
        """Return the same tolerance, with rounding beyond it as an excuse."""
        lenient = copy.copy(self)
        lenient.stated = False
        return lenient

    def of(self, dtype: torch.dtype) -> tuple[float, float]:
        """Return (rtol, atol) for `dtype`."""
        if self.rtol is not None or self.atol is not None:
            return self.rtol or 0.0, self.atol or 0.0
        rtol, atol = usual_tolerance(dtype)
        return rtol * self.factor, atol * self.factor


_REACH = 2.0  # a compiled result may be this many times further from eager than eager's nudged runs are
_SELDOM = 10.0  # when nudged runs change this many times more elements, rounding may explain any small difference
_LONGEST_FORM = 200  # characters of the structure of a result

OF_ROUNDING = ("shape", "nan", "value")  # the kinds of difference that rounding can cause
OF_VALUES = ("nan", "value")


class Evidence:
    """Evidence that may excuse a compiled result that differs from eager's.

    `reference` is the outcome in double precision, or None. `nudged` are outcomes of eager with its rounding disturbed.
    `choices` and `tied` are the origins of indices, and the results that depend on ties (choices.py). `ignore` are the
    names of results that are not compared. `memory` are the results of eager that share less memory, but enough.
    """

    def __init__(
        self,
        reference: Outcome | None = None,
        nudged: Iterable[Outcome] = (),
        choices: dict[str, Choice] | None = None,
        tied: Collection[str] = (),
        ignore: Collection[str] = (),
    ) -> None:
        self.best = reference
        self.reference = {} if reference is None else reference.places()
        self.nudged = [run.places() for run in nudged]
        self.choices = choices or {}
        self.tied = tied
        self.ignore = ignore
        self.memory: dict[str, Leaf | None] = {}


def kinds_of_difference(
    eager: Outcome, compiled: Outcome, tolerance: Tolerance, evidence: Evidence | None = None
) -> list[DifferenceData]:
    """Return the largest difference of each kind in each place (`place_of`), the worst kind first."""
    largest: dict[tuple[str, str], DifferenceData] = {}
    for new in differences(eager, compiled, tolerance, evidence):
        of = new["kind"], place_of(new["where"])
        if new["max_rel"] > largest.setdefault(of, new)["max_rel"]:
            largest[of] = new
    return sorted(largest.values(), key=lambda new: (KINDS_OF_DIFFERENCE.index(new["kind"]), -new["max_rel"]))


def places_that_differ(first: Outcome, second: Outcome, tolerance: Tolerance) -> list[str]:
    """Return the names of the results that differ in any way, in order."""
    return list(dict.fromkeys(each["where"] for each in differences(first, second, tolerance)))


def differences(
    eager: Outcome, compiled: Outcome, tolerance: Tolerance, evidence: Evidence | None = None
) -> Iterator[DifferenceData]:
    """Yield every difference that `evidence` does not excuse."""
    evidence = evidence or Evidence()
    unlike = set()
    for number, (eager_output, compiled_output) in enumerate(zip(eager.outputs, compiled.outputs)):
        if eager_output[1] != compiled_output[1]:
            unlike |= {where for (call, _), where in eager.output_places().items() if call == number}
            where = "output" if len(eager.outputs) == 1 else f"call {number}, output"
            yield of_form("structure", where, eager_output[1], compiled_output[1])
    gradients = {f"grad of {name}" for name in eager.grads}  # autograd chooses how a gradient lies in memory
    others = compiled.places()
    for where, a in eager.places().items():
        if where in unlike or where in evidence.ignore:
            continue
        b = others.get(where)
        if a is None or b is None:
            yield from _one_sided(where, a, b)
            continue
        yield from _values(where, a, b, tolerance, evidence)
        if where not in gradients:
            yield from _form(where, a, b, evidence.memory.get(where))
    for kind, where, *sides in eager.left_otherwise(compiled):
        if where not in evidence.ignore:
            yield of_form(kind, where, *sides)


def _one_sided(where: str, a: Leaf | None, b: Leaf | None) -> Iterator[DifferenceData]:
    if (a is None) != (b is None):
        sides = ("no gradient", "a gradient") if a is None else ("a gradient", "no gradient")
        detail = "eager has no gradient" if a is None else "compiled has no gradient"
        yield of_form("structure", where, *sides, detail=detail)


def _form(where: str, a: Leaf, b: Leaf, enough: Leaf | None) -> Iterator[DifferenceData]:
    """Yield the differences of an output or of an argument after the call, other than in its values."""
    if b.alias not in (a.alias, enough and enough.alias) and a.layout == b.layout:
        detail = f"eager's shares storage with {_names(a)}, compiled's with {_names(b)}"
        yield of_form("alias", where, _shared(a), _shared(b), detail=detail)
    if a.requires_grad != b.requires_grad:
        yield of_form("requires_grad", where, a.requires_grad, b.requires_grad)
    if a.stride != b.stride and a.layout == b.layout and a.is_tensor and a.value.shape == b.value.shape:
        detail = f"eager {a.stride}, compiled {b.stride} (0 where the size is 1)"
        yield of_form("stride", where, a.stride, b.stride, detail=detail)


def _names(leaf: Leaf) -> str:
    return ", ".join(leaf.alias or ()) or "no other tensor"


def _shared(leaf: Leaf) -> str:
    return f"shares storage with {_names(leaf)}"


def difference(
    kind: str, where: str, max_abs: float = 0.0, max_rel: float = 0.0, fraction: float = 0.0, detail: str = ""
) -> DifferenceData:
    """Return a difference as JSON data."""
    return {
        "kind": kind,
        "where": where,
        "max_abs": _finite(max_abs),
        "max_rel": _finite(max_rel),
        "fraction": fraction,
        "detail": detail,
    }


def of_form(kind: str, where: str, eager: object, compiled: object, *, detail: str = "") -> DifferenceData:
    """Return a difference in something other than values."""
    data = difference(kind, where, detail=detail or f"eager {eager}, compiled {compiled}")
    return {**data, "eager": str(eager)[:_LONGEST_FORM], "compiled": str(compiled)[:_LONGEST_FORM]}


def _finite(number: float) -> float:
    return sys.float_info.max if math.isinf(number) or math.isnan(number) else float(number)


def _values(where: str, a: Leaf, b: Leaf, tolerance: Tolerance, evidence: Evidence) -> Iterator[DifferenceData]:
    nudged = [leaf for leaf in (run.get(where) for run in evidence.nudged) if leaf is not None]
    if a.type != b.type:
        yield of_form("structure", where, a.type, b.type)
    elif not a.is_tensor:
        if not any(leaf.type == a.type and leaf.value != a.value for leaf in nudged):
            yield from _plain(where, a.value, b.value)
    elif any(leaf.value.shape != a.value.shape for leaf in nudged):
        return  # even the shape depends on a comparison that rounding decides
    elif a.value.shape != b.value.shape:
        yield of_form("shape", where, list(a.value.shape), list(b.value.shape))
    elif a.value.dtype != b.value.dtype:
        yield of_form("dtype", where, a.value.dtype, b.value.dtype)
    elif a.layout != b.layout:
        yield of_form("layout", where, a.layout, b.layout)
    elif a.device != b.device:
        yield of_form("device", where, a.device, b.device)
    elif a.value.numel():
        pair = _Pair(where, a.value, b.value, tolerance)
        c = evidence.reference.get(where)
        best = c.value if c is not None and c.is_tensor and c.value.shape == a.value.shape else None
        if pair.exact:
            difference_left = pair.exact_difference(best, evidence.choices.get(where), nudged)
        else:
            difference_left = pair.difference(best, nudged, tied=where in evidence.tied)
        if difference_left is not None:
            yield difference_left


def _plain(where: str, a: Any, b: Any) -> Iterator[DifferenceData]:
    """Yield the difference of two values of one type that are no tensors."""
    numbers = isinstance(a, (int, float, complex))
    own: Any = type(a).__eq__
    if own is object.__eq__ and not isinstance(a, enum.Enum):  # each call makes its own object
        return
    try:
        equal = bool(a == b) or (numbers and (cmath.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (a != a and b != b)))
    except Exception:  # a type without a usable ==, or a number too large for a float: they cannot be compared
        return
    if not equal:
        size = abs(a - b) if numbers else 0.0
        data = difference("value", where, max_abs=size, fraction=1.0, detail=f"eager {a!r}, compiled {b!r}")
        yield {**data, "eager": repr(a), "compiled": repr(b)}


class _Pair:
    """Two tensors of the same shape and dtype, in double precision."""

    def __init__(self, where: str, eager: torch.Tensor, compiled: torch.Tensor, tolerance: Tolerance) -> None:
        self.where, self.dtype = where, eager.dtype
        self.exact = not (eager.is_floating_point() or eager.is_complex())
        self.raw = _dense(eager), _dense(compiled)
        self.eager, self.compiled = wide(eager), wide(compiled)
        self.tolerance = tolerance
        rtol, atol = (0.0, 0.0) if self.exact else tolerance.of(eager.dtype)
        self.rtol: float = rtol
        self.atol: float = atol

    def exact_difference(
        self, best: torch.Tensor | None, choice: Choice | None, nudged: list[Leaf]
    ) -> DifferenceData | None:
        """Return the difference of integers or booleans that no tie and no rounding explains, or None."""
        off, why = self.raw[0] != self.raw[1], ""
        if best is not None:
            off &= _dense(best) != self.raw[1]
        if choice is not None and off.any():
            bad, why = choice.wrong(self.eager, self.compiled, self.tolerance)
            off &= bad
        elif nudged and off.any():
            off = self._beyond_rounding(off, [wide(leaf.value) for leaf in nudged])
        return self._value(off, why, exact=True) if off.any() else None

    def _beyond_rounding(self, off: torch.Tensor, runs: list[torch.Tensor]) -> torch.Tensor:
        """Return the part of `off` that no nudged run changes.

        When nudged runs change far more elements, only differences that are larger than theirs are left.
        """
        changed = torch.stack([run != self.eager for run in runs]).any(0)
        reach = max(float((run - self.eager).abs().max()) for run in runs)
        off = off & ~changed
        if off.any() and _SELDOM * _share(off) < _share(changed):
            off = off & ((self.compiled - self.eager).abs() > reach)
        return off

    def difference(self, best: torch.Tensor | None, nudged: list[Leaf], tied: bool) -> DifferenceData | None:
        """Return the difference of floating point numbers that rounding does not explain, or None."""
        a, b = self.eager, self.compiled
        off = ~self._close(b, a)
        if off.any() and nudged:
            off &= ~self._excused(nudged, tied)
        if not off.any():
            return None
        if best is not None and not self.tolerance.stated:
            # Excused elements must not count in the errors of the others.
            forgiven = torch.where(off, b, torch.where(self._close(b, a), b, a))
            if _no_worse(a, forgiven, wide(best), self.rtol, self.atol, self.dtype):
                return None
        nan = off & (a.isnan() != b.isnan())
        if nan.any():
            side = "compiled" if (b.isnan() & nan).any() else "eager"
            data = difference("nan", self.where, fraction=_share(nan), detail=f"only {side} has NaN, at {_first(nan)}")
            return self._with_first(data, nan)
        return self._value(off)

    def _close(self, b: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.isclose(b, a, rtol=self.rtol, atol=self.atol, equal_nan=True)

    def _excused(self, nudged: list[Leaf], tied: bool) -> torch.Tensor:
        """Return a mask of the elements whose difference is not much larger than the effect of rounding on eager.

        A few runs miss that effect at some elements: where they change most of a result, its usual size counts at each.
        """
        runs = [wide(leaf.value) for leaf in nudged]
        flipped = torch.zeros(self.eager.shape, dtype=torch.bool)
        reach = torch.zeros(self.eager.shape, dtype=torch.float64)
        for run in runs:
            flipped |= run.isnan() != self.eager.isnan()
            flipped |= tied & ~self._close(run, self.eager)
            gap = (run - self.eager).abs()
            reach = torch.maximum(reach, torch.where(gap.isnan(), torch.zeros_like(gap), gap))
        if self.tolerance.stated:
            return flipped
        changed = torch.stack([~self._close(run, self.eager) for run in runs]).any(0)
        if _share(changed) > 0.5:
            reach = reach.clamp(min=rms(reach))
        return flipped | ((self.compiled - self.eager).abs() <= _REACH * reach)

    def _value(self, off: torch.Tensor, why: str = "", exact: bool = False) -> DifferenceData:
        gap = (self.eager - self.compiled).abs()[off]
        gap = torch.where(gap.isnan(), torch.full_like(gap, math.inf), gap)
        # Relative to the element, or to the tensor's usual size where the element is close to zero.
        floor = max(rms(self.eager), 1.0 if exact else self.atol, sys.float_info.min)
        size = torch.clamp(self.eager.abs()[off], min=floor)
        rel = torch.where(size.isinf(), torch.full_like(gap, math.inf), gap / size)
        eager, compiled = (tensor[off][0].item() for tensor in self.raw)
        detail = f"first at {_first(off)}: eager {eager}, compiled {compiled}" + (f"; {why}" if why else "")
        data = difference("value", self.where, float(gap.max()), float(rel.max()), _share(off), detail)
        return self._with_first({**data, "exact": exact}, off)

    def _with_first(self, data: DifferenceData, off: torch.Tensor) -> DifferenceData:
        """Return `data` with the first element of `off`, as eager and the compiled program give it."""
        eager, compiled = (str(tensor[off][0].item()) for tensor in self.raw)
        return {**data, "index": _first(off), "eager": eager, "compiled": compiled}


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of `tensor`, dense, on the CPU."""
    dense = (
        tensor.dequantize() if tensor.is_quantized else tensor.to_dense() if tensor.layout != torch.strided else tensor
    )
    return dense.detach().cpu()


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of `tensor`, dense, in double precision, on the CPU."""
    dense = _dense(tensor)
    return dense.to(torch.complex128 if dense.is_complex() else torch.float64)


def _no_worse(
    eager: torch.Tensor, compiled: torch.Tensor, best: torch.Tensor, rtol: float, atol: float, dtype: Any
) -> bool:
    """Whether `compiled` is about as close to `best` as `eager` is (torch._dynamo.utils.same).

    The largest error counts besides the mean error. Otherwise a single wrong element among many would pass.
    """
    if eager.isnan().any() and not best.isnan().any() and not compiled.isnan().any():
        return torch.allclose(best, compiled, rtol=4e-2, atol=4e-2)
    usable = best.isfinite()
    if (compiled.isnan() != best.isnan()).any() or not usable.any():
        return False
    if ((compiled != best) & ~usable & ~best.isnan()).any():
        return False
    eager, compiled, best = eager[usable], compiled[usable], best[usable]
    factor = 3.0 if dtype in (torch.float16, torch.bfloat16) or best.numel() < 1000 else 2.0
    slack = (atol + rtol * rms(best)) / 10
    if not rms(compiled - best) <= factor * rms(eager - best) + slack:
        return False
    most = float((compiled - best).abs().max())
    return most <= 10 * float((eager - best).abs().max()) + atol + rtol * float(best.abs().max())


def rms(tensor: torch.Tensor) -> float:
    """Return the root of the mean square of the finite elements."""
    finite = tensor[tensor.isfinite()]
    return math.sqrt(float(finite.abs().square().mean())) if finite.numel() else 0.0


def _share(mask: torch.Tensor) -> float:
    return float(mask.double().mean())


def _first(mask: torch.Tensor) -> Any:
    return mask.nonzero()[0].tolist()
