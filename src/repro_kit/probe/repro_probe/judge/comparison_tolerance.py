"""The tolerances for comparing two results."""

from __future__ import annotations

import copy

import torch

from repro_probe.protocol.recipe_data import RecipeData

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
