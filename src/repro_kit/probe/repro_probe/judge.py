"""Compare the outcomes of two runs.

What counts as a difference of values follows `torch.testing.assert_close` first and, where that fails,
`torch._dynamo.utils.same`: with a reference in double precision, the compiled result is wrong only when it is further
from the reference than eager's is.
"""

import math
import sys

import torch

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

#: Kinds of difference from worst to mildest; the worst one found is reported.
_SEVERITY = ("structure", "shape", "dtype", "nan", "value", "alias", "requires_grad", "stride")


class Tolerance:
    """The recipe's tolerances, else the dtype's own, times `factor`."""

    def __init__(self, recipe, factor=1.0):
        self.rtol, self.atol, self.factor = recipe["rtol"], recipe["atol"], factor

    def of(self, dtype):
        """(rtol, atol) for `dtype`."""
        rtol, atol = _TOLERANCES.get(dtype, _COARSE)
        if self.rtol is not None or self.atol is not None:
            return self.rtol or 0.0, self.atol or 0.0
        return rtol * self.factor, atol * self.factor


def worst_difference(eager, compiled, tolerance, reference=None, ignore=()):
    """The worst difference as a dict (model/failure.py, Difference), or None.

    `reference` is the outcome in double precision; differences at the places in `ignore` are passed over.
    """
    found = [d for d in _differences(eager, compiled, tolerance, reference) if d["where"] not in ignore]
    return min(found, key=lambda d: _SEVERITY.index(d["kind"]), default=None)


def places_that_differ(one, other, tolerance):
    """The places at which two outcomes differ, in any way."""
    return {d["where"] for d in _differences(one, other, tolerance, None)}


def _differences(eager, compiled, tolerance, reference):
    for number, (one, other) in enumerate(zip(eager.outputs, compiled.outputs)):
        prefix = "" if len(eager.outputs) == 1 else f"call {number}, "
        if one[1] != other[1]:
            yield difference("structure", prefix + "output", detail=f"eager {one[1]}, compiled {other[1]}")
            continue
        best = reference.outputs[number][0] if reference is not None else [None] * len(one[0])
        for at, (a, b, c) in enumerate(zip(one[0], other[0], best)):
            where = f"{prefix}output {at}"
            yield from _values(where, a, b, c, tolerance)
            yield from _form(where, a, b)
    for name, a in eager.grads.items():
        c = reference.grads.get(name) if reference is not None else None
        yield from _gradient(f"grad of {name}", a, compiled.grads.get(name), c, tolerance)
    for name, a in eager.after.items():
        c = reference.after.get(name) if reference is not None else None
        yield from _values(f"{name} after the call", a, compiled.after[name], c, tolerance)


def _gradient(where, a, b, c, tolerance):
    if (a is None) != (b is None):
        detail = "eager has no gradient" if a is None else "compiled has no gradient"
        yield difference("structure", where, detail=detail)
    elif a is not None:
        yield from _values(where, a, b, c, tolerance)


def _form(where, a, b):
    """Differences of an output other than in its values."""
    if a.alias != b.alias:
        yield difference("alias", where, detail=f"eager's shares storage with {_names(a)}, compiled's with {_names(b)}")
    if a.requires_grad != b.requires_grad:
        yield difference("requires_grad", where, detail=f"eager {a.requires_grad}, compiled {b.requires_grad}")
    if a.stride != b.stride and a.is_tensor and b.is_tensor and a.value.shape == b.value.shape:
        yield difference("stride", where, detail=f"eager {a.stride}, compiled {b.stride} (0 where the size is 1)")


def _names(leaf):
    return ", ".join(leaf.alias or ()) or "no input"


def difference(kind, where, max_abs=0.0, max_rel=0.0, fraction=0.0, detail=""):
    """A difference as JSON data."""
    return {
        "kind": kind,
        "where": where,
        "max_abs": _finite(max_abs),
        "max_rel": _finite(max_rel),
        "fraction": fraction,
        "detail": detail,
    }


def _finite(number):
    return sys.float_info.max if math.isinf(number) or math.isnan(number) else float(number)


def _values(where, a, b, c, tolerance):
    if a.type != b.type:
        yield difference("structure", where, detail=f"eager {a.type}, compiled {b.type}")
    elif not a.is_tensor:
        yield from _plain(where, a.value, b.value)
    elif a.value.shape != b.value.shape:
        yield difference("shape", where, detail=f"eager {list(a.value.shape)}, compiled {list(b.value.shape)}")
    elif a.value.dtype != b.value.dtype:
        yield difference("dtype", where, detail=f"eager {a.value.dtype}, compiled {b.value.dtype}")
    else:
        best = c.value if c is not None and c.is_tensor and c.value.shape == a.value.shape else None
        found = _tensors(where, a.value, b.value, best, tolerance.of(a.value.dtype))
        if found is not None:
            yield found


def _plain(where, a, b):
    both_numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
    if (both_numbers and math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)) or (both_numbers and a != a and b != b):
        return
    try:
        equal = bool(a == b)
    except Exception:  # a type without a usable ==: nothing can be said
        return
    if not equal and (both_numbers or isinstance(a, (str, bytes, torch.dtype, torch.device))):
        size = abs(a - b) if both_numbers else 0.0
        yield difference("value", where, max_abs=size, fraction=1.0, detail=f"eager {a!r}, compiled {b!r}")


def _tensors(where, eager, compiled, best, tolerance):
    """The difference of two tensors of the same shape and dtype, or None."""
    if eager.numel() == 0:
        return None
    exact = not (eager.is_floating_point() or eager.is_complex())
    a, b = _wide(eager), _wide(compiled)
    rtol, atol = (0.0, 0.0) if exact else tolerance
    nan = a.isnan() != b.isnan()
    off = ~torch.isclose(b, a, rtol=rtol, atol=atol, equal_nan=True)
    if not off.any():
        return None
    if best is not None and not exact and _no_worse(a, b, _wide(best), rtol, atol, eager.dtype):
        return None
    if nan.any():
        side = "compiled" if (b.isnan() & nan).any() else "eager"
        return difference("nan", where, fraction=_share(nan), detail=f"only {side} has NaN, at {_first(nan)}")
    gap = (a - b).abs()[off]
    gap = torch.where(gap.isnan(), torch.full_like(gap, math.inf), gap)
    # Relative to the element, or to the tensor's usual size where the element is close to zero.
    size = torch.clamp(a.abs()[off], min=max(_rms(a), atol, sys.float_info.min))
    rel = torch.where(size.isinf(), torch.full_like(gap, math.inf), gap / size)
    detail = f"first at {_first(off)}: eager {_item(a, off)}, compiled {_item(b, off)}"
    return difference("value", where, float(gap.max()), float(rel.max()), _share(off), detail)


def _wide(tensor):
    """The values of `tensor`, dense, in double precision, on the CPU."""
    dense = (
        tensor.dequantize() if tensor.is_quantized else tensor.to_dense() if tensor.layout != torch.strided else tensor
    )
    dense = dense.detach().cpu()
    return dense.to(torch.complex128 if dense.is_complex() else torch.float64)


def _no_worse(eager, compiled, best, rtol, atol, dtype):
    """Whether `compiled` is about as close to `best` as `eager` is (torch._dynamo.utils.same).

    Besides the mean error the largest one counts, or a single wrong element among many would pass.
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
    slack = (atol + rtol * _rms(best)) / 10
    if not _rms(compiled - best) <= factor * _rms(eager - best) + slack:
        return False
    most = float((compiled - best).abs().max())
    return most <= 10 * float((eager - best).abs().max()) + atol + rtol * float(best.abs().max())


def _rms(tensor):
    finite = tensor[tensor.isfinite()]
    return math.sqrt(float(finite.abs().square().mean())) if finite.numel() else 0.0


def _share(mask):
    return float(mask.double().mean())


def _first(mask):
    return mask.nonzero()[0].tolist()


def _item(tensor, mask):
    return tensor[mask][0].item()
