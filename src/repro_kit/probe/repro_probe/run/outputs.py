"""Run a program's calls, and keep their results for comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import torch
from torch.utils._pytree import tree_flatten

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
        """Return the context that a forward call runs in."""

    def widened(self, widen: Callable[[Any], Any]) -> AbstractContextManager[Any]:
        """Return a context in which tensors that `calls` does not make have the values that `widen` returns."""


class Leaf:
    """One output or input right after its call: a copy of a tensor, or any other value itself."""

    def __init__(self, value: Any, inputs: Iterable[tuple[str, Any]] = ()) -> None:
        self.is_tensor = isinstance(value, torch.Tensor)
        self.value = value.detach().clone() if self.is_tensor else value
        self.type = "tensor" if self.is_tensor else type(value).__name__
        self.stride = self.requires_grad = self.alias = None
        if not self.is_tensor:
            return
        self.requires_grad = value.requires_grad
        if value.layout == torch.strided:
            # A dimension of size 1 may have any stride, and so may an empty tensor.
            self.stride = [step if size > 1 else 0 for size, step in zip(value.shape, value.stride())]
            pointer = _pointer(value)
            self.alias = [name for name, argument in inputs if pointer and _pointer(argument) == pointer]
        if value.numel() == 0:
            self.stride = None


def _pointer(value: Any) -> int | None:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return pointer_of(value)


class Outcome:
    """All results of one run: `outputs` has (leaves, structure) for each call.

    `grads` has the gradients, and `after` the inputs after the call, both by parameter name.
    """

    def __init__(self) -> None:
        self.outputs: list[tuple[list[Leaf], str]] = []
        self.grads: dict[str, Leaf | None] = {}
        self.after: dict[str, Leaf] = {}
        self.random = False  # random numbers were drawn outside of `calls()`

    def output_places(self) -> dict[tuple[int, int], str]:
        """Return the names of all leaves of the outputs, by (number of the call, number of the leaf)."""
        several = len(self.outputs) > 1
        return {
            (number, at): f"call {number}, output {at}" if several else f"output {at}"
            for number, (leaves, _) in enumerate(self.outputs)
            for at in range(len(leaves))
        }

    def places(self) -> dict[str, Leaf | None]:
        """Return everything that is compared, by name: a Leaf, or None for a missing gradient."""
        leaves: dict[str, Leaf | None] = {
            where: self.outputs[number][0][at] for (number, at), where in self.output_places().items()
        }
        leaves.update((f"grad of {name}", leaf) for name, leaf in self.grads.items())
        leaves.update((f"{name} after the call", leaf) for name, leaf in self.after.items())
        return leaves


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
    before = _random_state()
    for number, arguments in enumerate(calls):
        phases("forward", number)
        with program.forward_region(autocast):
            result = function(*arguments)
        synchronize()
        named = _named_inputs(program, arguments)
        leaves, structure = tree_flatten(result)
        outcome.outputs.append(([Leaf(leaf, named) for leaf in leaves], str(structure)))
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
        for name, value in _named_inputs(program, arguments):
            if not isinstance(value, torch.Tensor):
                continue
            label = name if len(calls) == 1 else f"{name} (call {number})"
            outcome.after[label] = Leaf(value)
            if value.requires_grad and value.is_leaf:
                outcome.grads[label] = None if value.grad is None else Leaf(value.grad)
