"""Find out what rounding decides, by running eager with every result nudged by about its rounding error.

A comparison, a choice among equal values or a conversion to integers can turn a difference in the last digit into a
different result. Where the nudged runs of eager disagree, a compiled result may be like any of them.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from repro_probe.judge.choices import CHOOSERS, is_index
from repro_probe.run import outputs
from repro_probe.run.outputs import Outcome, RunnableCalls

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


_PAIRS = 3  # each nudge is tried in both directions, so that either of two equal values is the larger one once
#: Pairs that are tried whatever they take: with fewer, a large model of which rounding decides much would seem wrong.
_LEAST_PAIRS = 2
#: CPU seconds for all runs together, since nudges take longer than most operators: other work of the machine changes no
#: verdict so.
_SECONDS = 30.0
_EPSILONS = 2.0  # the largest nudge; vectorised functions are accurate to a few units in the last place
#: Growth of a sum's error with the root of the number of its terms, which may be added one by one (Higham and Mary, "A
#: new approach to probabilistic rounding error analysis", 2019: seldom above a few roots; equal terms come near it).
_GROWTH = 1.0
_GROWTH_OF_HALVES = 0.25  # their sums are mostly added up in float32
#: Operators that only copy or select values, so that nothing in their results is rounded. A backward may look for the
#: selected value among the values it came from (`amax`): nudged, it would not be there.
_EXACT = {
    "copy", "fill", "zero", "clone", "_to_copy", "cat", "stack", "full", "full_like", "new_full", "scalar_tensor",
    "index", "_unsafe_index", "index_select", "gather", "take", "embedding", "masked_select", "masked_fill",
    "scatter", "slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter", "where", "tril", "triu",
    "_unsafe_view", "flip", "roll", "repeat", "repeat_interleave", "constant_pad_nd", "im2col", "channel_shuffle",
    "masked_scatter", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "pixel_shuffle",
    "pixel_unshuffle", "amax", "amin", "aminmax", "maximum", "minimum", "fmax", "fmin", "clamp", "clamp_min",
    "clamp_max", "relu", "hardtanh", "threshold", "abs", "neg",
}  # fmt: skip
#: Operators that select the largest or smallest value where their arguments say so.
_EXTREME_BY_ARGUMENT = {"scatter_reduce", "index_reduce", "segment_reduce", "linalg_vector_norm", "norm"}


class Nudge(TorchDispatchMode):
    """Nudges the result of every operator; `until` is the CPU time of the process at which the run is given up."""

    def __init__(self, seed: int, direction: float, until: float = math.inf) -> None:
        super().__init__()
        self.until = until
        self.generator = torch.Generator().manual_seed(seed)
        self.direction = direction

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if time.process_time() > self.until:
            raise TimeoutError("no time for another run")
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = function._schema.name.partition("::")[2]
        if name in CHOOSERS and args and not function._schema.is_mutable:
            return self._choose_again(function, name, args, kwargs, result)
        if _is_exact(name, args, kwargs) or function.is_view or torch.Tag.nondeterministic_seeded in function.tags:
            return result
        in_place = function._schema.is_mutable
        if in_place and not (isinstance(result, torch.Tensor) and args and result is args[0]):
            return result  # writes to several tensors or to none, which is too rare to handle
        terms = None if torch.Tag.pointwise in function.tags else _largest((args, kwargs))
        arguments = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]

        def nudged(tensor: torch.Tensor) -> torch.Tensor:
            coarse = coarse_epsilon(name, tensor.dtype, tensor.device.type)
            if not in_place and any(torch._C._is_alias_of(tensor, argument) for argument in arguments):
                return tensor  # a custom operator's view of its argument, which its schema does not declare
            moved = self._nudged(tensor, terms, coarse)
            return tensor if moved is None else tensor.copy_(moved) if in_place else moved

        return tree_map_only(torch.Tensor, nudged, result)

    def _nudged(self, tensor: torch.Tensor, terms: int | None, coarse: float | None) -> Any:
        """Return `tensor` with its inexact elements nudged, or None. Small whole numbers count as exact.

        `terms` is the number of elements that a sum may have added up; None for an operator on single elements.
        `coarse` is the rounding error of the terms, where they are rounded to fewer bits than the sum.
        """
        if tensor.layout != torch.strided or tensor.is_quantized or not tensor.numel():
            return None
        if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.element_size() == 1:
            return None
        epsilon = torch.finfo(tensor.dtype).eps
        wide = tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)
        size = wide.abs()
        usable = size.isfinite()
        exact = ~usable
        if not tensor.is_complex():
            exact |= (wide == wide.round()) & (size * epsilon < 0.25)
        if terms is not None and usable.any():  # the terms of a sum may be larger than the sum
            size = size.clamp(min=float(size[usable].square().mean().sqrt()))
        of_root = _GROWTH if tensor.element_size() > 2 else _GROWTH_OF_HALVES
        growth = max(1.0, of_root * math.sqrt((terms or 0) / tensor.numel()))
        noise = self._noise(wide) * size * (_EPSILONS * max(growth * epsilon, coarse or 0.0))
        moved = torch.where(exact, wide, wide + noise).to(tensor.dtype)
        return torch.empty_like(tensor).copy_(moved)

    def _noise(self, like: torch.Tensor) -> torch.Tensor:
        """Return numbers between a half and one, of either sign, so that no nudge is too small to have an effect."""
        drawn = torch.rand(like.shape, generator=self.generator, dtype=torch.float64) - 0.5
        return ((drawn + drawn.sign() / 2) * self.direction).to(like.device)

    def _choose_again(
        self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Any:
        """Return `result` with the indices of a different choice among nearly equal values.

        A result without indices (`max` over all elements) stays: it is one of the values.
        """
        if isinstance(result, torch.Tensor) and not name.startswith("arg"):
            return result
        values = args[0].detach()
        if name == "mode":
            chosen, at = result
            along = args[1] if len(args) > 1 else kwargs.get("dim", -1)
            keep = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
            equal = values == (chosen if keep or not values.dim() else chosen.unsqueeze(along))
            again = (equal * (self._noise(values) + 2)).argmax(along, keepdim=keep)
            return type(result)((chosen, again)) if at.shape == again.shape else result
        epsilon = torch.finfo(values.dtype).eps if values.is_floating_point() else 1e-9
        wide = values.double()
        finite = wide[wide.isfinite()]
        size = wide.abs().clamp(min=float(finite.square().mean().sqrt()) if finite.numel() else 0.0) + 1e-30
        moved = torch.where(wide.isfinite(), wide + self._noise(wide) * size * (_EPSILONS * epsilon), wide)
        again = function(moved, *args[1:], **kwargs)
        if isinstance(result, torch.Tensor):
            return again
        return type(result)([new if is_index(old) else old for old, new in zip(result, again)])


def _is_exact(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the operator `name`, or its in-place form, rounds nothing."""
    plain = name[:-1] if name.endswith("_") else name
    if plain in _EXTREME_BY_ARGUMENT:
        return any(value in ("amax", "amin", "max", "min", math.inf, -math.inf) for value in _scalars((args, kwargs)))
    return plain in _EXACT


def _scalars(arguments: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, (str, float))]


def _largest(arguments: Any) -> int:
    """Return the number of elements of the largest tensor among `arguments`."""
    return max((leaf.numel() for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)), default=0)


def nudged_runs(program: RunnableCalls) -> list[Outcome]:
    """Return outcomes of `program` in eager with its results nudged. Runs that fail or take too long are left out."""
    outcomes, limit = [], time.process_time() + _SECONDS
    given = _with_exact_inputs(program)
    for seed in range(_PAIRS):
        until = math.inf if seed < _LEAST_PAIRS else limit
        for direction in (1.0, -1.0):
            try:
                with Nudge(seed, direction, until):
                    outcomes.append(outputs.run(given, program.graph))
            except Exception:  # a size or an index that depends on nudged values may be out of bounds
                continue
    return outcomes


def _with_exact_inputs(program: RunnableCalls) -> RunnableCalls:
    """Return `program` with inputs that are not nudged: inputs are given, so nothing in them was rounded."""
    given: Any = copy.copy(program)

    def calls() -> list[tuple[Any, ...]]:
        with _disable_current_modes():
            return program.calls()

    given.calls = calls
    return given
