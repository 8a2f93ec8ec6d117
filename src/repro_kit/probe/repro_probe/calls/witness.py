"""Record digests of the result of each compiled call, and of the Python state after the call.

Each process writes its digests when it ends. With them two runs of a script can be compared, as far as their calls
have the same arguments. The random number generators are seeded for that.
"""

from __future__ import annotations

import atexit
import functools
import random
import sys
import types
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from repro_probe.protocol.findings import WitnessedCall

_CALLS = 1000  # calls that are recorded
_ITEMS, _DEPTH = 200, 5  # items of a container, depth of nesting

_PLAIN = (bool, int, float, str, bytes, type(None))
_LEFT_OUT = (types.ModuleType, types.BuiltinFunctionType, types.CodeType)
#: Modules whose classes and functions hold no state of the user.
_FOREIGN = {"torch", "numpy", "builtins", "repro_probe", *getattr(sys, "stdlib_module_names", ())}


class Witness:
    """Passes the list of calls to `write` when the process ends: [name, arguments before, result, state after]."""

    def __init__(self, torch: Any, write: Callable[[list[WitnessedCall]], None]) -> None:
        self._torch = torch
        self._calls: list[WitnessedCall] = []
        random.seed(0)
        torch.manual_seed(0)
        atexit.register(lambda: write(self._calls))

    def __call__(self, original: Any, compiled: Any) -> Any:
        """Return `compiled`, which was made from `original`, with its calls recorded."""
        if isinstance(compiled, self._torch.nn.Module):
            compiled.forward = self._witnessed(original, compiled.forward)
            return compiled
        return self._witnessed(original, compiled)

    def _witnessed(self, original: Any, compiled: Any) -> Callable[..., Any]:
        compiling = self._torch.compiler.is_compiling

        @functools.wraps(compiled)
        def call(*arguments: Any, **named: Any) -> Any:
            if compiling():
                return compiled(*arguments, **named)
            given: dict[Any, Any] = {**dict(enumerate(arguments)), **named}
            before = self._digest(given)
            try:
                result = compiled(*arguments, **named)
            except Exception as error:
                self._note(original, before, ["raised", type(error).__name__], given)
                raise
            self._note(original, before, self._digest(result), given)
            return result

        return call

    def _note(self, original: Any, before: Any, result: Any, given: dict[Any, Any]) -> None:
        if len(self._calls) < _CALLS:
            name = getattr(original, "__qualname__", type(original).__name__)
            state = {**self._state(original), "arguments": self._digest(given)}
            self._calls.append([name, before, result, state])

    def _state(self, original: Any) -> dict[str, Any]:
        """Return digests of what the function can reach: its closure, the globals that it names, and its object."""
        state = {}
        if isinstance(original, self._torch.nn.Module):
            state["self"] = self._digest(original)
            original = type(original).forward
        owner = getattr(original, "__self__", None)
        if owner is not None:
            state["self"] = self._digest(owner)
        function = getattr(original, "__func__", original)
        if isinstance(function, types.FunctionType):
            state.update(self._of_function(function, self._digest))
        return state

    def _of_function(self, function: FunctionType, digest: Callable[[Any], Any]) -> dict[str, Any]:
        state = {}
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                state[name] = digest(cell.cell_contents)
            except ValueError:  # not assigned yet
                state[name] = None
        for name in sorted(_names(code)):
            if name in function.__globals__:
                state[name] = digest(function.__globals__[name])
        return state

    def _digest(self, value: Any, depth: int = _DEPTH, above: tuple[int, ...] = ()) -> Any:
        torch = self._torch
        if isinstance(value, torch.Tensor):
            return _of_tensor(torch, value)
        if isinstance(value, _PLAIN):
            return value if isinstance(value, (bool, int, float, str)) else repr(value)
        if isinstance(value, _LEFT_OUT) or depth == 0 or id(value) in above:
            return type(value).__name__
        above = (*above, id(value))
        deeper = functools.partial(self._digest, depth=depth - 1, above=above)
        if isinstance(value, (types.FunctionType, types.MethodType, type)):
            return self._of_definition(value, deeper)
        if isinstance(value, dict):
            items = {str(key): deeper(item) for key, item in list(value.items())[:_ITEMS]}
            return {**items, "(order)": list(items)}
        if isinstance(value, (list, tuple)):
            return [len(value), *(deeper(item) for item in value[:_ITEMS])]
        if isinstance(value, (set, frozenset)):
            return [len(value), *sorted(repr(deeper(item)) for item in list(value)[:_ITEMS])]
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict):
            return type(value).__name__
        hidden = isinstance(value, torch.nn.Module)  # empty private attributes of a module, such as hooks, are left out
        kept = {name: item for name, item in attributes.items() if not (hidden and name.startswith("_") and not item)}
        return {name: deeper(item) for name, item in kept.items() if not name.startswith("_torchdynamo")}

    def _of_definition(self, value: Any, digest: Callable[[Any], Any]) -> Any:
        """Return digests of what a function or class of the user can reach."""
        if str(value.__module__).partition(".")[0] in _FOREIGN:
            return type(value).__name__
        if isinstance(value, types.FunctionType):
            return self._of_function(value, digest)
        if isinstance(value, types.MethodType):
            return [digest(value.__self__), digest(value.__func__)]
        return {name: digest(item) for name, item in vars(value).items() if not name.startswith("__")}


def _of_tensor(torch: Any, tensor: Any) -> list[Any]:
    """Return the dtype, the shape and two sums of a tensor; the sums show most differences."""
    form = [str(tensor.dtype), list(tensor.shape)]
    try:
        with torch.no_grad():
            flat = tensor.detach().to("cpu", torch.complex128 if tensor.is_complex() else torch.float64).abs()
            plain = tensor.detach().to("cpu", torch.float64) if not tensor.is_complex() else flat
            weights = torch.linspace(1, 2, max(plain.numel(), 1), dtype=torch.float64)[: plain.numel()]
            return ["tensor", *form, float(flat.sum().real), float((plain.reshape(-1) * weights).sum())]
    except (RuntimeError, TypeError, NotImplementedError):  # subclasses and layouts that cannot be summed
        return ["tensor", *form]


def _names(code: CodeType) -> set[str]:
    """Return the names of globals that a code object and its nested code objects use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
