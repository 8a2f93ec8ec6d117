"""Digests of Python objects, as JSON data: of what a compiled function returns, and of the state that it can reach."""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections import deque
from collections.abc import Callable
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

from repro_probe.calls import generators

_ITEMS, _DEPTH = 200, 5  # items of a container, depth of nesting

_PLAIN = (bool, int, float, str, bytes, type(None))
_LEFT_OUT = (types.ModuleType, types.BuiltinFunctionType, types.CodeType)
#: Modules whose classes and functions hold no state of the user.
FOREIGN = {"torch", "numpy", "builtins", "repro_probe", *getattr(sys, "stdlib_module_names", ())}


class StateDigest:
    """Makes digests. Of tensors: dtype, shape and, with `values`, two sums."""

    def __init__(self, torch: Any, *, values: bool = True) -> None:
        self._torch = torch
        self._values = values

    def of_reach(self, original: Any) -> dict[str, Any]:
        """Return digests of what the function can reach: its closure, the globals that it names, and its object."""
        state = {}
        if isinstance(original, self._torch.nn.Module):
            state["self"] = self.of(original)
            original = type(original).forward
        owner = getattr(original, "__self__", None)
        if owner is not None:
            state["self"] = self.of(owner)
        function = getattr(original, "__func__", original)
        if isinstance(function, types.FunctionType):
            state.update(self._of_function(function, self.of))
        return state

    def _of_function(self, function: FunctionType, digest: Callable[[Any], Any]) -> dict[str, Any]:
        state = {}
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                state[name] = digest(cell.cell_contents)
            except ValueError:  # not assigned yet
                state[name] = None
        for name in sorted(names_of(code)):
            if name in function.__globals__:
                state[name] = digest(function.__globals__[name])
        return state

    def of(self, value: Any, depth: int = _DEPTH, above: tuple[int, ...] = ()) -> Any:
        """Return the digest of any object; `depth`: how deep to look. `above`: the ids of what encloses it."""
        torch = self._torch
        if isinstance(value, torch.Tensor):
            return _of_tensor(torch, value, values=self._values)
        if isinstance(value, _PLAIN):
            return value if isinstance(value, (bool, int, float, str)) else repr(value)
        if isinstance(value, _LEFT_OUT) or depth == 0 or id(value) in above:
            return type(value).__name__
        above = (*above, id(value))
        deeper = functools.partial(self.of, depth=depth - 1, above=above)
        if isinstance(value, (types.FunctionType, types.MethodType, type)):
            return self._of_definition(value, deeper)
        if isinstance(value, dict):
            pairs = enumerate(islice(list(value.items()), _ITEMS))
            items = {_name_of_key(key, at): deeper(item) for at, (key, item) in pairs}
            return {**items, "(order)": list(items)}
        if isinstance(value, (list, tuple, deque)):
            return [len(value), *(deeper(item) for item in islice(value, _ITEMS))]
        if isinstance(value, (set, frozenset)):
            return [len(value), *sorted(repr(deeper(item)) for item in islice(value, _ITEMS))]
        attributes = getattr(value, "__dict__", None)
        access = generators.generator_access(torch, value)
        if access is not None:
            return {"state": _of_random(access[0]()), **(deeper(attributes) if attributes else {})}
        slots = slots_of(value)
        if slots:
            attributes = {**(attributes or {}), **{slot.__name__: slot.__get__(value, type(value)) for slot in slots}}
        if not isinstance(attributes, dict):
            return type(value).__name__
        hidden = isinstance(value, torch.nn.Module)  # empty private attributes of a module, such as hooks, are left out
        kept = {name: item for name, item in attributes.items() if not (hidden and name.startswith("_") and not item)}
        return {name: deeper(item) for name, item in kept.items() if not name.startswith("_torchdynamo")}

    def _of_definition(self, value: Any, digest: Callable[[Any], Any]) -> Any:
        """Return digests of what a function or class of the user can reach."""
        if str(value.__module__).partition(".")[0] in FOREIGN:
            return type(value).__name__
        if isinstance(value, types.FunctionType):
            return self._of_function(value, digest)
        if isinstance(value, types.MethodType):
            return [digest(value.__self__), digest(value.__func__)]
        own = vars(value).items()
        return {name: digest(item) for name, item in own if isinstance(item, FunctionType) or not name.startswith("__")}


def _of_random(state: Any) -> str:
    """Return a digest of the state of a generator of random numbers."""
    numbers = state.tolist() if hasattr(state, "tolist") else state
    return hashlib.sha256(repr(numbers).encode()).hexdigest()[:12]


def _name_of_key(key: Any, at: int) -> str:
    """Return a name for the key number `at` of a dict. A tensor, say, is named by its type: its text has its values."""
    return str(key) if isinstance(key, _PLAIN) else f"{type(key).__name__} {at}"


def _of_tensor(torch: Any, tensor: Any, *, values: bool) -> list[Any]:
    """Return the dtype, the shape and two sums of a tensor; the sums show most differences."""
    form = [str(tensor.dtype), list(tensor.shape)]
    if not values:
        return ["tensor", *form]
    try:
        with torch.no_grad():
            flat = tensor.detach().to("cpu", torch.complex128 if tensor.is_complex() else torch.float64).abs()
            plain = tensor.detach().to("cpu", torch.float64) if not tensor.is_complex() else flat
            weights = torch.linspace(1, 2, max(plain.numel(), 1), dtype=torch.float64)[: plain.numel()]
            return ["tensor", *form, float(flat.sum().real), float((plain.reshape(-1) * weights).sum())]
    except (RuntimeError, TypeError, NotImplementedError):  # subclasses and layouts that cannot be summed
        return ["tensor", *form]


def names_of(code: CodeType) -> set[str]:
    """Return the names of globals that a code object and its nested code objects use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_of(constant)
    return names


def slots_of(value: Any) -> list[types.MemberDescriptorType]:
    """Return the slots of `value` that are set, of classes of the user."""
    return [
        member
        for kind in type(value).__mro__
        if str(kind.__module__).partition(".")[0] not in FOREIGN
        for member in vars(kind).values()
        if isinstance(member, types.MemberDescriptorType) and _is_set(member, value)
    ]


def _is_set(member: types.MemberDescriptorType, value: Any) -> bool:
    try:  # not `hasattr`, which asks the user's own `__getattr__` for a slot that is not set
        member.__get__(value, type(value))
    except AttributeError:
        return False
    return True
