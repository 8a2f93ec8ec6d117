"""Read the Python state that a function can reach: as digests to compare, or as values to put back after a call."""

from __future__ import annotations

import functools
import hashlib
import random
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

#: The functions that read the state of a generator, and put it back.
StateAccess = tuple[Callable[[], Any], Callable[[Any], Any]]


def generator_access(torch: Any, value: Any) -> StateAccess | None:
    """Return how the state of the generator `value` is read and put back; None for any other object."""
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return value.getstate, value.setstate
    if isinstance(value, torch.Generator):
        return value.get_state, value.set_state
    numpy_random = getattr(sys.modules.get("numpy"), "random", None)
    if numpy_random is None:
        return None
    if isinstance(value, numpy_random.RandomState):
        return value.get_state, value.set_state
    bits = value.bit_generator if isinstance(value, numpy_random.Generator) else value
    if isinstance(bits, numpy_random.BitGenerator):
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    return None


_ITEMS, _DEPTH = 200, 5  # items of a container, depth of nesting

_FIELDS = (((range, slice), ("start", "stop", "step")), (complex, ("real", "imag")))
_TEXTS = {"builtins", "datetime", "decimal", "fractions", "pathlib", "uuid", "torch"}  # whose values have a text
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
        access = generator_access(torch, value)
        if access is not None:
            return {"state": _of_random(access[0]()), **(deeper(attributes) if attributes else {})}
        slots = slots_of(value)
        if slots:
            attributes = {**(attributes or {}), **{slot.__name__: slot.__get__(value, type(value)) for slot in slots}}
        if not isinstance(attributes, dict):
            return self._of_value(value, deeper)
        hidden = isinstance(value, torch.nn.Module)  # empty private attributes of a module, such as hooks, are left out
        kept = {name: item for name, item in attributes.items() if not (hidden and name.startswith("_") and not item)}
        return {name: deeper(item) for name, item in kept.items() if not name.startswith("_torchdynamo")}

    def _of_value(self, value: Any, digest: Callable[[Any], Any]) -> Any:
        """Return the digest of an object without attributes of its own, such as a range, a date or an array."""
        fields = next((names for kind, names in _FIELDS if isinstance(value, kind)), ())
        if fields:
            return {name: digest(getattr(value, name)) for name in fields}
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            return [str(value.dtype), list(value.shape), digest(value.reshape(-1)[:_ITEMS].tolist())]
        text = repr(value) if type(value).__module__ in _TEXTS else ""
        return text if text and " at 0x" not in text else type(value).__name__

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


_MOST = 50_000  # objects that are looked at
_NO_STATE = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, str, bytes, int, float, complex, type(None))


class ReachableState:
    """The state that is reachable from some objects, as it was when this object was made.

    Kept are containers, attributes, closures, globals that the function names, the values of tensors, and the
    states of generators of random numbers. The state of C code and of open files is not kept, nor the position of
    an iterator: a call that can reach an iterator cannot be repeated.
    """

    def __init__(
        self, torch: Any, roots: Iterable[Any], without: Iterable[Any] = (), most_bytes: int = 1 << 30
    ) -> None:
        """`without`: objects that are left out, with what only they reach. `most_bytes`: of all values of tensors."""
        self.iterators: list[str] = []  # the types of the iterators that were reached
        self._torch = torch
        self._bytes_left = most_bytes
        self._restorers: list[Callable[[], None]] = []
        self._seen: dict[int, Any] = {id(value): value for value in without}  # objects, so that no id is used again
        waiting = deque(roots)
        while waiting and len(self._seen) < _MOST:
            value = waiting.popleft()
            if not isinstance(value, _NO_STATE) and id(value) not in self._seen:
                self._seen[id(value)] = value
                waiting.extend(self._kept(value))

    def restore(self) -> None:
        """Put everything back that has changed."""
        for restore in self._restorers:
            restore()

    def _kept(self, value: Any) -> Iterable[Any]:
        """Keep what `value` itself holds; returns what can be reached from there."""
        if isinstance(value, self._torch.Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, (list, deque)):
            return self._sequence(value)
        if isinstance(value, set):
            return self._set(value)
        if isinstance(value, (tuple, frozenset)):
            return value
        if isinstance(value, functools.partial):
            return [value.func, *value.args, *value.keywords.values()]
        if isinstance(value, types.MethodType):
            return [value.__self__, value.__func__]
        if isinstance(value, types.FunctionType):
            return self._function(value) if _is_own(value) else ()
        if isinstance(value, type):
            return self._class(value) if _is_own(value) else ()
        if type(value).__module__ in ("builtins", "itertools") and hasattr(value, "__next__"):
            self.iterators.append(type(value).__name__)
            return ()
        self._random(value)
        attributes = getattr(value, "__dict__", None)
        named = [*self._mapping(attributes), type(value)] if isinstance(attributes, dict) else []
        return [*named, *(self._slot(value, slot) for slot in slots_of(value))]

    def _slot(self, value: Any, slot: types.MemberDescriptorType) -> Any:
        before = slot.__get__(value, type(value))

        self._restorers.append(functools.partial(slot.__set__, value, before))
        return before

    def _random(self, value: Any) -> None:
        access = generator_access(self._torch, value)
        if access is not None:
            read, put_back = access
            self._restorers.append(functools.partial(put_back, read()))

    def _tensor(self, tensor: Any) -> Iterable[Any]:
        plain = type(tensor) in (self._torch.Tensor, self._torch.nn.Parameter)
        if not plain or tensor.layout is not self._torch.strided:
            return ()
        self._bytes_left -= tensor.numel() * tensor.element_size()
        if self._bytes_left < 0:
            return ()
        before, gradient = tensor.detach().clone(), tensor.grad if tensor.is_leaf else None

        def restore() -> None:
            with self._torch.inference_mode(tensor.is_inference()):
                same_form = tensor.shape == before.shape and tensor.dtype == before.dtype
                if same_form and not self._torch.equal(tensor.data, before):
                    tensor.data.copy_(before)
            if tensor.is_leaf and tensor.grad is not gradient:
                tensor.grad = gradient

        self._restorers.append(restore)
        return () if gradient is None else (gradient,)

    def _mapping(self, mapping: dict[Any, Any]) -> Iterable[Any]:
        before = list(mapping.items())
        kind = OrderedDict if isinstance(mapping, OrderedDict) else dict  # a subclass may count, or copy

        def restore() -> None:
            now = list(mapping.items())
            if len(now) != len(before) or any(a is not c or b is not d for (a, b), (c, d) in zip(now, before)):
                kind.clear(mapping)
                for name, value in before:
                    kind.__setitem__(mapping, name, value)

        self._restorers.append(restore)
        return [item for pair in before for item in pair]

    def _sequence(self, sequence: Any) -> Iterable[Any]:
        before = list(sequence)

        def restore() -> None:
            if len(sequence) != len(before) or any(a is not b for a, b in zip(sequence, before)):
                sequence.clear()
                sequence.extend(before)

        self._restorers.append(restore)
        return before

    def _set(self, values: set[Any]) -> Iterable[Any]:
        before = set(values)

        def restore() -> None:
            if values != before:
                values.clear()
                values.update(before)

        self._restorers.append(restore)
        return before

    def _function(self, function: types.FunctionType) -> Iterable[Any]:
        reached = []
        for cell in function.__closure__ or ():
            try:
                reached.append(self._cell(cell, cell.cell_contents))
            except ValueError:  # not assigned yet
                continue
        names = [name for name in names_of(function.__code__) if name in function.__globals__]
        return [*reached, *(self._global(function.__globals__, name) for name in names)]

    def _cell(self, cell: types.CellType, before: Any) -> Any:
        def restore() -> None:
            if cell.cell_contents is not before:
                cell.cell_contents = before

        self._restorers.append(restore)
        return before

    def _global(self, names: dict[str, Any], name: str) -> Any:
        before = names[name]

        def restore() -> None:
            if names.get(name) is not before:
                names[name] = before

        self._restorers.append(restore)
        return before

    def _class(self, owner: type) -> Iterable[Any]:
        before = dict(vars(owner))

        def restore() -> None:
            for name, value in before.items():
                if vars(owner).get(name) is not value and not name.startswith("__"):
                    setattr(owner, name, value)

        self._restorers.append(restore)
        return [*before.values(), *owner.__bases__]


def _is_own(definition: Any) -> bool:
    return str(definition.__module__).partition(".")[0] not in FOREIGN
