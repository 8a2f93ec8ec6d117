"""Keep the Python state that a function can reach, and put it back after the function was called for a comparison."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

from repro_probe.calls import generators
from repro_probe.calls.state_digest import FOREIGN, names_of, slots_of

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
        access = generators.generator_access(self._torch, value)
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
