"""Products of float32 that CUDA computes in TensorFloat-32."""

from __future__ import annotations

from collections.abc import Callable

import torch

EPSILON = 2.0**-10

_PRODUCTS = {
    *("mm", "bmm", "addmm", "baddbmm", "addbmm", "matmul", "linear", "_addmm_activation"),
    *("_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward"),
    *("_scaled_dot_product_cudnn_attention", "_efficient_attention_forward", "_efficient_attention_backward"),
}
_CONVOLUTIONS = {"convolution", "_convolution", "convolution_backward", "cudnn_convolution", "_cudnn_rnn", "conv2d"}


def coarse_epsilon(name: str, dtype: torch.dtype, device: str) -> float | None:
    """Return the rounding error of the operator `name` (``bmm``) on a type of device; None for that of the dtype.

    CUDA computes products of float32 in TensorFloat-32 where torch allows it, with 10 bits of mantissa, not 23: by
    default for convolutions, and for matrix products where the program says so. The libraries and Triton round
    differently then (https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-
    devices).
    """
    if device != "cuda" or dtype not in (torch.float32, torch.complex64):
        return None
    if name in _PRODUCTS:
        return EPSILON if _products_may() else None
    return EPSILON if name in _CONVOLUTIONS and _convolutions_may() else None


def _products_may() -> bool:
    legacy = _ask(torch.get_float32_matmul_precision)
    newer = _ask(lambda: torch.backends.cuda.matmul.fp32_precision)
    return legacy not in (None, "highest") or newer == "tf32"


def _convolutions_may() -> bool:
    return bool(_ask(lambda: torch.backends.cudnn.allow_tf32)) or _ask(_precision_of_convolutions) == "tf32"


def _precision_of_convolutions() -> object:
    return torch.backends.cudnn.conv.fp32_precision


def _ask(read: Callable[[], object]) -> object:
    """Return a setting; None where this torch lacks it, or has it set through the other of its two interfaces."""
    try:
        return read()
    except (AttributeError, RuntimeError):
        return None
