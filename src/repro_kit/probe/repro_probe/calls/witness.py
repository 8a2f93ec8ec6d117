"""Witness the calls of the functions that the user compiles: what each returns, and the Python state that it leaves.

Written down are digests, one list a process, when it ends: two runs of a script can be compared by them, as far as
their calls get the same arguments. Random numbers are seeded for that.
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

_CALLS = 1000  # that are written down
_ITEMS, _DEPTH = 200, 5  # of a container, of nesting

_PLAIN = (bool, int, float, str, bytes, type(None))
_LEFT_OUT = (types.ModuleType, types.BuiltinFunctionType, types.CodeType)
#: Modules whose classes and functions keep no state of the user's.
_FOREIGN = {"torch", "numpy", "builtins", "repro_probe", *getattr(sys, "stdlib_module_names", ())}


class Witness:
    """`write` gets the list of calls at the end: [name, arguments before, result, state after] each."""

    def __init__(self, torch: Any, write: Callable[[list[WitnessedCall]], None]) -> None:
        self._torch = torch
        self._calls: list[WitnessedCall] = []
        random.seed(0)
        torch.manual_seed(0)
        atexit.register(lambda: write(self._calls))

    def __call__(self, original: Any, compiled: Any) -> Any:
        """`compiled`, made of `original`, with its calls witnessed."""
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
        """What the function can reach besides its arguments: its closure, globals that it names, its object."""
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
        hidden = isinstance(value, torch.nn.Module)  # hooks and the like of a module say nothing
        kept = {name: item for name, item in attributes.items() if not (hidden and name.startswith("_") and not item)}
        return {name: deeper(item) for name, item in kept.items() if not name.startswith("_torchdynamo")}

    def _of_definition(self, value: Any, digest: Callable[[Any], Any]) -> Any:
        """What the user's functions and classes can reach."""
        if str(value.__module__).partition(".")[0] in _FOREIGN:
            return type(value).__name__
        if isinstance(value, types.FunctionType):
            return self._of_function(value, digest)
        if isinstance(value, types.MethodType):
            return [digest(value.__self__), digest(value.__func__)]
        return {name: digest(item) for name, item in vars(value).items() if not name.startswith("__")}


def _of_tensor(torch: Any, tensor: Any) -> list[Any]:
    """Form and contents in short: two sums tell most differences."""
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
    """Names of globals that a code object and those within it use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
