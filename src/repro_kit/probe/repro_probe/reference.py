"""A second opinion on eager's own result: in double precision, and which indices were a matter of ties."""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

from repro_probe import outcome

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
    """Runs every operator in double precision; random numbers are drawn in the type that was asked for."""

    def __init__(self, default_dtype):
        super().__init__()
        self.default_dtype = default_dtype

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.ops.aten.view.dtype:
            raise NoReference("the program looks at the bits of a tensor")
        if torch.Tag.nondeterministic_seeded in function.tags and not _writes(function):
            with _default_dtype(self.default_dtype):
                return tree_map(_widen, function(*args, **kwargs))
        return function(*tree_map(_widen, args), **tree_map(_widen, kwargs))


def _writes(function):
    return any(argument.alias_info is not None for argument in function._schema.arguments)


def _widen(value):
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in _WIDER:
        return value.to(_WIDER[value.dtype])
    return value


@contextlib.contextmanager
def _default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _loading_plainly():
    """torch.load puts storages together below the level a mode understands; widen what it returns instead."""
    original = torch.load

    def load(*arguments, **named):
        with _disable_current_modes():
            return tree_map(_widen, original(*arguments, **named))

    torch.load = load
    try:
        yield
    finally:
        torch.load = original


def in_double(program):
    """The Outcome of `program` in eager, in double precision; None when it cannot be had."""
    try:
        with _loading_plainly(), _Double(torch.get_default_dtype()), _default_dtype(torch.float64):
            return outcome.run(program, program.graph, _quiet, autocast=False)
    except Exception:  # operators without double support, in-place writes into what was widened: no second opinion
        return None


def _quiet(step, number):
    """The steps of a second opinion are of no interest."""


class _Ties(TorchDispatchMode):
    """Follows indices that were chosen among equal values, and everything computed from them."""

    def __init__(self):
        super().__init__()
        self.storages = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = function._schema.name.partition("::")[2]
        if self.touches((args, kwargs)):
            self._mark(result)
        elif name in _CHOOSERS and args and _has_ties(name, args, kwargs):
            self._mark([leaf for leaf in tree_flatten(result)[0] if _is_index(leaf)])
        return result

    def _mark(self, values):
        for leaf in tree_flatten(values)[0]:
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                self.storages[storage.data_ptr()] = storage  # kept alive, so that its address stays its own

    def touches(self, values):
        """Whether any tensor among `values` comes from a tie."""
        return any(
            isinstance(leaf, torch.Tensor) and leaf.untyped_storage().data_ptr() in self.storages
            for leaf in tree_flatten(values)[0]
        )


#: Operators that return indices; of the first only the extreme value matters.
_EXTREME = {"argmax": 1, "argmin": -1, "max": 1, "min": -1, "cummax": 0, "cummin": 0}
_CHOOSERS = {
    *_EXTREME,
    *("sort", "argsort", "topk", "median", "nanmedian", "mode", "kthvalue"),
    *("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d"),
    *("fractional_max_pool2d", "fractional_max_pool3d", "_adaptive_max_pool2d"),
}


def _is_index(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.int64, torch.int32)


def _has_ties(name, args, kwargs):
    """Whether two values that compete for an index are equal, up to rounding."""
    values = args[0].detach().double()
    if values.numel() < 2:
        return False
    direction = _EXTREME.get(name)
    if not direction:
        ordered = values.flatten().sort().values
        return bool(torch.isclose(ordered[1:], ordered[:-1], rtol=1e-6, atol=0).any())
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    values = (values.flatten() if dim is None else values.movedim(dim, -1)) * direction
    if values.shape[-1] < 2:
        return False
    first, second = values.topk(2, dim=-1).values.unbind(-1)
    return bool((torch.isclose(first, second, rtol=1e-6, atol=0) | first.isnan()).any())


def places_of_ties(program):
    """Names of the results (as `judge` calls them) that depend on how ties were broken."""
    ties = _Ties()
    with ties:
        found = outcome.run(program, program.graph, _quiet)
    places = set()
    for number, (leaves, _) in enumerate(found.outputs):
        prefix = "" if len(found.outputs) == 1 else f"call {number}, "
        places |= {f"{prefix}output {at}" for at, leaf in enumerate(leaves) if ties.touches(leaf.value)}
    places |= {f"grad of {name}" for name, leaf in found.grads.items() if leaf and ties.touches(leaf.value)}
    return places | {f"{name} after the call" for name, leaf in found.after.items() if ties.touches(leaf.value)}
