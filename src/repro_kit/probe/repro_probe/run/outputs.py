"""Run a program's calls, and keep their results for comparison."""

from __future__ import annotations

import enum
import hashlib
import linecache
import os
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import torch
from torch.utils._pytree import tree_flatten

from repro_probe.protocol.failure_data import GENERATOR, WARNINGS
from repro_probe.protocol.recipe_data import ENTRIES, RecipeData
from repro_probe.record.values import pointer_of
from repro_probe.run.load_program import seed

#: The next step of a run.
Step = Literal["calls", "forward", "backward"]


class RunnableCalls(Protocol):
    """Calls that can be run in eager and compiled: those of a program, or a call in the user's script."""

    recipe: RecipeData
    parameters: list[str]

    @property
    def graph(self) -> Callable[..., Any]:
        """The function that is run in eager."""

    @property
    def calls(self) -> Callable[[], list[tuple[Any, ...]]]:
        """A function that makes the arguments of each call."""

    def surroundings(self) -> AbstractContextManager[Any]:
        """Return the context that a call and its backward run in."""

    def forward_region(self, autocast: bool = True) -> AbstractContextManager[Any]:
        """Return the context that a forward call runs in. It yields the warnings, where it catches them."""

    def widened(self, widen: Callable[[Any], Any]) -> AbstractContextManager[Any]:
        """Return a context in which tensors that `calls` does not make have the values that `widen` returns."""


class Leaf:
    """One output or input right after its call: a copy of a tensor, or any other value itself.

    `memory` has the names of the tensors that it may share memory with; `name` is its own, which is left out.
    """

    def __init__(self, value: Any, memory: Memory | None = None, name: str = "") -> None:
        self.part = ""  # the name of a part of a result; empty: its number
        self.type = _type_of(value)
        value = _plain(value)
        self.is_tensor = isinstance(value, torch.Tensor)
        self.value = value.detach().clone() if self.is_tensor else value
        self.stride = self.requires_grad = self.alias = self.layout = self.device = None
        if not self.is_tensor:
            return
        self.requires_grad = value.requires_grad
        self.layout, self.device = str(value.layout), str(value.device)
        if value.layout == torch.strided:
            # A dimension of size 1 may have any stride, and so may an empty tensor.
            self.stride = [step if size > 1 else 0 for size, step in zip(value.shape, value.stride())]
            self.alias = _sharing(value, memory or {}, name)
        if value.numel() == 0:
            self.stride = None


def _type_of(value: Any) -> str:
    """Return the name of the class of `value`. A parameter is a tensor, and so is a result that is still awaited."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    plain = type(value) in (torch.Tensor, torch.nn.Parameter) or type(value).__name__ == "AsyncCollectiveTensor"
    return "tensor" if plain else type(value).__name__


def _plain(value: Any) -> Any:
    """Return an array of NumPy as a tensor, and a number of NumPy as one of Python; any other value as it is."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return value
    try:
        return torch.from_numpy(value.copy()) if isinstance(value, numpy.ndarray) else value.item()
    except TypeError:  # an array of texts or objects
        return value.tolist()


#: Values that have no parts of interest. Modules of torch, functions and classes hold more than a result.
_LEAVES = (torch.Tensor, torch.nn.Module, type, types.FunctionType, types.MethodType, types.ModuleType, enum.Enum)
_ORDERED = (bool, int, float, complex, str, bytes, type(None), enum.Enum, range, torch.dtype, torch.device)
_FOREIGN = {"numpy", "builtins", *getattr(sys, "stdlib_module_names", ())}
_DEPTH, _ITEMS = 4, 200  # of objects within objects, and of the parts of one that are looked at
_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType)


def parts_of(result: Any) -> tuple[list[tuple[str, Any]], str]:
    """Return the leaves of a result with their names, and its structure.

    pytree knows no sets and no objects of the user. A set has its members as leaves, in the order of their texts, and
    an object its attributes: each with a name, such as "0.scale".
    """
    leaves, structure = tree_flatten(result)
    parts: list[tuple[str, Any]] = []
    forms = [str(structure)]
    for at, leaf in enumerate(leaves):
        _add_parts(parts, forms, f"{at}", leaf, ())
    return parts, " ".join(forms)


def _add_parts(parts: list[tuple[str, Any]], forms: list[str], name: str, value: Any, above: tuple[int, ...]) -> None:
    inner = _inner(value) if len(above) < _DEPTH and id(value) not in above else None
    if inner is None:
        parts.append((name, value))
        return
    kind = type(value).__qualname__
    forms.append(f"{name}: {kind}({', '.join(inner)})")
    for key, item in list(inner.items())[:_ITEMS]:
        leaves, structure = tree_flatten(item)
        is_leaf = len(leaves) == 1 and leaves[0] is item
        if not is_leaf:
            forms.append(f"{name}{key}: {structure}")
        for at, leaf in enumerate(leaves):
            inside = f"{name}{key}" if is_leaf else f"{name}{key}.{at}"
            _add_parts(parts, forms, inside, leaf, (*above, id(value)))


def _inner(value: Any) -> dict[str, Any] | None:
    """Return what `value` holds, by name: a set, a view of a dict, or an object of the user; None for a leaf."""
    if isinstance(value, (set, frozenset)):
        members = sorted(filter(_is_plain, value), key=repr)
        others = sorted(type(member).__qualname__ for member in value if not _is_plain(member))
        return {**{f"[{at}]": member for at, member in enumerate(members)}, **({"[…]": others} if others else {})}
    if isinstance(value, _VIEWS):
        return {"()": dict(value) if isinstance(value, types.MappingProxyType) else list(value)}
    if isinstance(value, _LEAVES) or str(type(value).__module__).partition(".")[0] in _FOREIGN:
        return None
    attributes = {**(getattr(value, "__dict__", None) or {}), **_slots(value)}
    return {f".{name}": item for name, item in attributes.items() if not name.startswith("_torchdynamo")} or None


def _is_plain(value: Any) -> bool:
    return isinstance(value, _ORDERED) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _slots(value: Any) -> dict[str, Any]:
    members = {
        name: member
        for kind in reversed(type(value).__mro__)
        for name, member in vars(kind).items()
        if isinstance(member, types.MemberDescriptorType) and str(kind.__module__) not in ("builtins", "enum")
    }
    slots = {}
    for name, member in members.items():
        try:  # not `hasattr`, which asks the user's own `__getattr__` for a slot that is not set
            slots[name] = member.__get__(value, type(value))
        except AttributeError:
            continue
    return slots


#: Tensors by the address of their storage: (name, first byte, byte behind the last one).
Memory = Mapping[int, Sequence[tuple[str, int, int]]]


def _bytes(value: Any) -> tuple[int, int, int] | None:
    """Return the storage of a tensor and the part of it that the tensor uses; None where it has no memory."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or not value.numel():
        return None
    pointer, size = pointer_of(value), value.element_size()
    last = value.storage_offset() + sum((count - 1) * step for count, step in zip(value.shape, value.stride()))
    return (pointer, value.storage_offset() * size, (last + 1) * size) if pointer else None


def _memory(named: Iterable[tuple[str, Any]]) -> Memory:
    memory: dict[int, list[tuple[str, int, int]]] = {}
    for name, value in named:
        place = _bytes(value)
        if place:
            memory.setdefault(place[0], []).append((name, *place[1:]))
    return memory


def _sharing(value: Any, memory: Memory, name: str) -> list[str]:
    """Return the names of the other tensors that use a part of the memory of `value`: a write to one shows in both."""
    place = _bytes(value)
    if place is None:
        return []
    pointer, start, end = place
    return [
        other for other, first, behind in memory.get(pointer, ()) if other != name and first < end and start < behind
    ]


class Outcome:
    """All results of one run: `outputs` has (leaves, structure) for each call.

    `grads` has the gradients, and `after` the inputs after the call, both by parameter name. `generators` has the state
    of each generator of random numbers after the last forward, and `warnings` those that the program itself gave.
    """

    def __init__(self) -> None:
        self.outputs: list[tuple[list[Leaf], str]] = []
        self.grads: dict[str, Leaf | None] = {}
        self.after: dict[str, Leaf] = {}
        self.generators: dict[str, str] = {}
        self.warnings: list[str] = []
        self.random = False  # random numbers were drawn outside of `calls()`

    def output_places(self) -> dict[tuple[int, int], str]:
        """Return the names of all leaves of the outputs, by (number of the call, number of the leaf)."""
        several = len(self.outputs) > 1
        return {
            (number, at): f"call {number}, output {leaf.part or at}" if several else f"output {leaf.part or at}"
            for number, (leaves, _) in enumerate(self.outputs)
            for at, leaf in enumerate(leaves)
        }

    def places(self) -> dict[str, Leaf | None]:
        """Return everything that is compared, by name: a Leaf, or None for a missing gradient."""
        leaves: dict[str, Leaf | None] = {
            where: self.outputs[number][0][at] for (number, at), where in self.output_places().items()
        }
        leaves.update((f"grad of {name}", leaf) for name, leaf in self.grads.items())
        leaves.update((f"{name} after the call", leaf) for name, leaf in self.after.items())
        return leaves

    def left_otherwise(self, compiled: Outcome) -> Iterator[tuple[str, str, str, str]]:
        """Yield what the compiled calls leave otherwise than these of eager, besides values: kind, place, and both.

        Where eager draws numbers of torch or NumPy, compiled code may draw others, and another number of them.
        """
        for name, state in self.generators.items():
            other = compiled.generators.get(name, state)
            if state != other and (state == _UNTOUCHED or name == _PYTHON):
                yield "random", f"{GENERATOR} of {name}", state, other
        if self.warnings != compiled.warnings:
            yield "warning", WARNINGS, "; ".join(self.warnings) or "none", "; ".join(compiled.warnings) or "none"


#: The generator of Python, and the state of a generator that a call leaves as it was.
_PYTHON, _UNTOUCHED = "random", "as before the call"


def run(
    program: RunnableCalls,
    function: Callable[..., Any],
    phases: Callable[[Step, int], None] = lambda step, number: None,
    *,
    autocast: bool = True,
) -> Outcome:
    """Run every call of `program` through `function`. Exceptions of the calls are not caught.

    `phases(step, number)` is called before each step: ``calls``, and ``forward`` and ``backward`` of each call.
    """
    recipe = program.recipe
    seed(recipe)
    phases("calls", 0)
    calls = program.calls()
    outcome = Outcome()
    before, states = _random_state(), _generators()
    for number, arguments in enumerate(calls):
        phases("forward", number)
        with program.forward_region(autocast) as given:
            result = function(*arguments)
        synchronize()
        if given is not None:  # of a call of the script: a graph alone neither warns nor draws numbers of Python
            outcome.generators = {name: _changed(states[name], state) for name, state in _generators().items()}
            outcome.warnings += filter(None, map(_own_warning, given))
        named = _named_inputs(program, arguments)
        parts, structure = parts_of(result)
        leaves = [leaf for _, leaf in parts]
        apart = recipe.get("backend") in ENTRIES  # an exported program gives each result a memory of its own
        results = () if apart else ((f"output {name}", leaf) for name, leaf in parts)
        memory = _memory([*named, *results])
        outcome.outputs.append(([Leaf(leaf, memory, f"output {name}") for name, leaf in parts], structure))
        if not all(name.isdigit() for name, _ in parts):
            for leaf, (name, _) in zip(outcome.outputs[-1][0], parts):
                leaf.part = name
        outcome.random = outcome.random or not torch.equal(before, _random_state())
        if recipe["backward"] != "none":
            phases("backward", number)
            with program.surroundings():
                differentiate(leaves, recipe)
            synchronize()
            outcome.random = outcome.random or (
                recipe["backward"] == "sum" and not torch.equal(before, _random_state())
            )
    _keep_inputs(outcome, program, calls)
    return outcome


def synchronize() -> None:
    """Wait for the accelerators in use, so that the error of a kernel is raised in the step that started the kernel."""
    for device in (torch.cuda, getattr(torch, "xpu", None)):
        if device is not None and device.is_initialized():
            device.synchronize()


def _generators() -> dict[str, Any]:
    numpy = sys.modules.get("numpy")
    states = {"torch": _random_state().tolist(), _PYTHON: random.getstate()}
    return {**states, "numpy": [*map(repr, numpy.random.get_state())]} if numpy else states


def _changed(before: Any, after: Any) -> str:
    return _UNTOUCHED if before == after else "state " + hashlib.sha256(repr(after).encode()).hexdigest()[:12]


_TORCH = os.path.dirname(torch.__file__) + os.sep


def _own_warning(given: warnings.WarningMessage) -> str:
    """Return class and place of a warning that a line of the user gives; "" of any other.

    torch's own, which blame a line of the user as well, come when it runs an operator, so that compiled code gives few.
    """
    line = linecache.getline(given.filename, given.lineno)
    if given.filename.startswith(_TORCH) or "warn" not in line or "Triggered internally" in str(given.message):
        return ""
    return f"{given.category.__name__} at {os.path.basename(given.filename)}:{given.lineno}"


def _random_state() -> torch.Tensor:
    states = [torch.random.get_rng_state()]
    if torch.cuda.is_initialized():
        states += torch.cuda.get_rng_state_all()
    return torch.cat(states)


def differentiate(leaves: Sequence[Any], recipe: RecipeData) -> None:
    """Run the backward of the sum of all differentiable outputs, or one with seeded random gradients."""
    outputs = [
        leaf
        for leaf in leaves
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and (leaf.is_floating_point() or leaf.is_complex())
    ]
    if not outputs:
        return
    if recipe["backward"] == "sum":
        sum((output.abs() if output.is_complex() else output).sum() for output in outputs).backward()
        return
    torch.manual_seed(recipe["seed"])
    # The gradients are drawn in float32 for every dtype, so that a run in double precision gets the same numbers.
    gradients = [torch.randn(o.shape, dtype=torch.float32, device=o.device).to(o.dtype) for o in outputs]
    torch.autograd.backward(outputs, gradients)


def _named_inputs(program: RunnableCalls, arguments: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the arguments with their names, without buffers of a module that is exported.

    An exported module works on copies of its buffers: nothing is written back, and no result is a view of an argument.
    """
    kept_inside = getattr(torch.nn, "Buffer", ()) if program.recipe.get("backend") in ENTRIES else ()
    return [pair for pair in zip(program.parameters, arguments) if not isinstance(pair[1], kept_inside)]


def _keep_inputs(outcome: Outcome, program: RunnableCalls, calls: Sequence[tuple[Any, ...]]) -> None:
    for number, arguments in enumerate(calls):
        named = _named_inputs(program, arguments)
        memory = _memory(named)
        for name, value in named:
            if not isinstance(value, torch.Tensor):
                continue
            label = name if len(calls) == 1 else f"{name} (call {number})"
            outcome.after[label] = Leaf(value, memory, name)
            if value.requires_grad and value.is_leaf:
                outcome.grads[label] = None if value.grad is None else Leaf(value.grad)
