"""Run a program in double precision, to judge whether a difference is rounding and which tolerance shows a bug."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from repro_probe.judge import compare_outputs
from repro_probe.judge.compare_outputs import OF_ROUNDING, WITHOUT_REFERENCE, Evidence, Tolerance, usual_tolerance, wide
from repro_probe.protocol.failure_data import AFTER, ErrorRow
from repro_probe.run import outputs
from repro_probe.run.outputs import Leaf, Outcome, RunnableCalls

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


class NoReference(Exception):
    """The program cannot be run in double precision."""


class _Double(TorchDispatchMode):
    """Runs every operator in double precision. Random numbers are drawn in the dtype that the program asks for."""

    def __init__(self, default_dtype: torch.dtype) -> None:
        super().__init__()
        self.default_dtype = default_dtype

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.ops.aten.view.dtype:
            raise NoReference("the program looks at the bits of a tensor")
        if torch.Tag.nondeterministic_seeded in function.tags and not _writes(function):
            with _default_dtype(self.default_dtype):
                return tree_map(widen, function(*args, **kwargs))
        return function(*tree_map(widen, args), **tree_map(widen, kwargs))


def _writes(function: Any) -> bool:
    return any(argument.alias_info is not None for argument in function._schema.arguments)


def widen(value: Any) -> Any:
    """Return a tensor or a dtype in double precision, and any other value as it is."""
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in _WIDER:
        return value.to(_WIDER[value.dtype])
    return value


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _loading_plainly() -> Iterator[None]:
    """Widen the results of torch.load, which builds tensors in a way that a dispatch mode cannot follow."""
    original = torch.load

    def load(*arguments: Any, **named: Any) -> Any:
        with _disable_current_modes():
            return tree_map(widen, original(*arguments, **named))

    torch.load = load
    try:
        yield
    finally:
        torch.load = original


def in_double(program: RunnableCalls) -> Outcome | None:
    """Return the Outcome of `program` in eager, in double precision; None when the program cannot be run so."""
    try:
        default_dtype = torch.get_default_dtype()
        with program.widened(widen), _loading_plainly(), _Double(default_dtype), _default_dtype(torch.float64):
            return outputs.run(program, program.graph, autocast=False)
    except Exception:  # an operator without double precision, or an in-place write to a widened tensor
        return None


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


_WRONG, _RIGHT = 10.0, 3.0  # times the usual error; between the two nobody can tell
_STEPS = 8.0  # of the dtype: the usual error where eager's own is smaller, or not known


def sides(eager: Outcome, compiled: Outcome, evidence: Evidence) -> tuple[list[str], list[str]]:
    """Return the names of the results that are certainly wrong, and of those that are right by computation.

    A result is wrong far from double precision, and right as near as eager is, or as its nudged runs are: a rounding
    error may flip the choice of a ReLU. Results of a small size count like large ones. Left out is what shows nothing:
    zeros, integers, and arguments that the program does not write to.
    """
    others = compiled.places()
    wrong: list[str] = []
    right: list[str] = []
    for where, a in eager.places().items():
        b = others.get(where)
        if where in evidence.ignore or (a is None and b is None):
            continue
        if a is None or b is None:
            wrong.append(where)
            continue
        near = [leaf for leaf in (run.get(where) for run in evidence.nudged) if leaf is not None]
        times = _times_off(a, b, evidence.reference.get(where), near, written=not where.endswith(AFTER))
        if times is not None:
            wrong += [where] if times >= _WRONG else []
            right += [where] if times <= _RIGHT else []
    return wrong, right


def _times_off(a: Leaf, b: Leaf, c: Leaf | None, nudged: list[Leaf], *, written: bool) -> float | None:
    """Return how many times the usual error a compiled result is off; None where it shows nothing."""
    if not (a.is_tensor and b.is_tensor and a.value.is_floating_point() and a.value.numel()):
        return None
    if b.value.shape != a.value.shape or b.value.dtype != a.value.dtype:
        return math.inf
    eager, compiled = compare_outputs.wide(a.value), compare_outputs.wide(b.value)
    has_best = c is not None and c.is_tensor and c.value.shape == a.value.shape
    truth = compare_outputs.wide(c.value) if c is not None and has_best else eager
    size, own = compare_outputs.rms(truth), compare_outputs.rms(eager - truth)
    if not size or not (written or own):
        return None
    if (compiled.isfinite() != truth.isfinite()).any():
        return math.inf
    runs = [compare_outputs.wide(leaf.value) for leaf in nudged if leaf.is_tensor and leaf.value.shape == a.value.shape]
    reach = max((compare_outputs.rms(run - truth) for run in runs), default=0.0)
    usual = max(own, reach, _STEPS * torch.finfo(a.value.dtype).eps * size)
    return compare_outputs.rms(compiled - truth) / usual


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
