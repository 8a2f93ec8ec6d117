"""Compare a compiled call in the user's script with the same call in eager: its results, gradients and writes.

The call is made several times with the same tensors: with copies of its arguments, and with the parameters and buffers
of the modules that it can reach, whose values are restored, as is the other Python state that it can reach.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_flatten, tree_unflatten

from repro_probe.calls.calls import Call
from repro_probe.calls.copied_arguments import CopiedArguments, as_it_is
from repro_probe.calls.python_state import ReachableState
from repro_probe.common.tracebacks import describe_exception
from repro_probe.judge import compare_outputs, recheck
from repro_probe.judge.compare_outputs import Tolerance
from repro_probe.judge.doubts import doubts
from repro_probe.protocol.findings import CompiledCallData
from repro_probe.protocol.recipe_data import RECIPE_DEFAULTS, RecipeData
from repro_probe.run import outputs
from repro_probe.run.load_program import set_config
from repro_probe.run.outputs import Outcome

CALLS = 3  # calls of one callable that are compared: a missing guard shows at the second call


def observe(call: Call) -> None:
    """Compare the results of `call`, and keep the first difference of its callable."""
    if not call.record.get("difference"):
        _observe(call, _comparison)


def observe_validation(call: Call) -> None:
    """Note the exception of `call` in eager, if the compiled call raises none."""
    if not call.record.get("lost"):
        _observe(call, _lost)


def _observe(call: Call, compare: Callable[[_AsProgram, CompiledCallData], Mapping[str, Any]]) -> None:
    """Add what `compare` finds to the record of the call, unless repetitions of the call begin in other states."""
    record = call.record
    watcher = _watcher()
    if watcher:
        record["watched"] = watcher
    with undisturbed():
        program = _AsProgram(call)
        iterators = ", ".join(dict.fromkeys(program.python_state.iterators))
        if iterators:
            record["problem"] = (
                f"not compared: it can reach an iterator ({iterators}), which each repeated call would advance"
            )
            return
        with program.untouched():
            found = compare(program, record)
    record["compared"] = record.get("compared", 0) + 1
    record.update(cast(CompiledCallData, found))


def _watcher() -> str:
    """Return what sees which operators run at present, or what they save for a backward; "" where nothing does.

    A profiler does, a mode of the program's, and its hooks for saved tensors.
    """
    if torch.autograd._profiler_enabled():
        return "a profiler"
    modes = _get_current_dispatch_mode_stack()
    if modes:
        return f"a mode for operators ({type(modes[-1]).__name__})"
    hooks: Any = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)  # not in every torch
    return "a hook for saved tensors" if hooks is not None and hooks(True) is not None else ""


def _comparison(program: _AsProgram, record: CompiledCallData) -> Mapping[str, Any]:
    outcomes = _both(program, record)
    if outcomes is None:
        return {}
    eager, compiled = outcomes
    if not compare_outputs.kinds_of_difference(eager, compiled, Tolerance(program.recipe)):
        return {}
    with_eager_random = functools.partial(_with_eager_random, program)
    found = recheck.reconsider(program, eager, compiled, with_eager_random, with_errors=True)
    apart = [*filter(None, [found.get("difference")]), *found.get("also", ()), *found.get("errors", ())]
    if apart:
        found["doubts"] = doubts(program, eager, [each["where"] for each in apart])
    if found.get("errors"):
        found["rounding"] = bool(found.get("rounding")) and record.get("rounding", True)
        found["errors"] = record.get("errors") or found["errors"]
    else:
        found.pop("errors", None)
        found.pop("rounding", None)
    return found


def _both(program: _AsProgram, record: CompiledCallData) -> tuple[Outcome, Outcome] | None:
    """Return the outcomes in eager and compiled; None if the compiled call raises an exception of eager's kind.

    `record` notes which of the two raises.
    """
    try:
        eager = outputs.run(program, program.graph)
    except Exception as error:
        try:
            _compiled(program)
        except Exception as other:
            record["both"] = type(error).__name__
            if isinstance(other, type(error)):
                record["note"] = f"eager raises {type(error).__name__}, and so does the compiled call"
                return None
            raise
        if _raises_again(program, error):
            record["raised"] = f"eager raises {type(error).__name__}, the compiled call does not"
            record["lost"] = describe_exception(error)
        raise
    try:
        return eager, _compiled(program)
    except Exception as error:
        record["raised"] = f"the compiled call raises {type(error).__name__}, eager does not"
        raise


def _lost(program: _AsProgram, record: CompiledCallData) -> Mapping[str, Any]:
    raised = None
    try:
        outputs.run(program, program.graph)
    except Exception as error:
        raised = error
    if raised is None:
        return {}
    try:
        _compiled(program)
    except Exception:
        return {}
    return {"lost": describe_exception(raised)} if _raises_again(program, raised) else {}


def _raises_again(program: _AsProgram, error: Exception) -> bool:
    """Whether eager raises `error` every time: a call that changes Python state may raise only once."""
    try:
        outputs.run(program, program.graph)
    except Exception as again:
        return type(again) is type(error)
    return False


def _compiled(program: _AsProgram) -> Outcome:
    return outputs.run(program, program.compiled)


def _with_eager_random(program: _AsProgram) -> Outcome:
    torch._dynamo.reset()
    before = sys.modules["torch._inductor.config"].fallback_random
    set_config("inductor.fallback_random", True)
    try:
        return _compiled(program)
    finally:
        set_config("inductor.fallback_random", before)
        torch._dynamo.reset()


class _AsProgram:
    """A call in the form that results are compared in (`RunnableCalls`): inputs by name, a graph, a recipe."""

    def __init__(self, call: Call) -> None:
        self.call = call
        leaves, self.structure = tree_flatten(call.arguments)
        self.state = dict(_state(call.original, leaves))
        self.leaves = CopiedArguments(leaves, {id(tensor): tensor for tensor in self.state.values()})
        self.values = [tensor.detach().clone() for tensor in self.state.values()]
        self.forms = [(tensor.requires_grad, _geometry(tensor)) for tensor in self.state.values()]
        given = filter(_is_tensor, leaves)  # of these each call gets copies
        self.python_state = ReachableState(torch, [call.original, call.arguments], [*self.state.values(), *given])
        self.parameters = [*(f"argument {at}" for at in range(len(leaves))), *self.state]
        tensors = [*self.state.values(), *filter(_is_tensor, leaves)]
        trains = call.grad and not call.inference and any(tensor.requires_grad for tensor in tensors)
        self.recipe: RecipeData = {**RECIPE_DEFAULTS, "backward": "sum" if trains else "none"}

    def calls(self) -> list[tuple[Any, ...]]:
        """Return copies of the call's arguments, and the state as it was before the call."""
        with _disable_current_modes():
            self._put_back()
        return [(*self.leaves(), *self.state.values())]

    def graph(self, *inputs: Any) -> Any:
        """Make the call in eager."""
        return self._make(self.call.eager, inputs)

    def compiled(self, *inputs: Any) -> Any:
        """Make the call compiled, as the script does."""
        return self._make(self.call.run, inputs)

    def _make(self, function: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
        arguments, named = tree_unflatten(list(inputs[: self.structure.num_leaves]), self.structure)
        return function(*arguments, **named)

    def _put_back(self) -> None:
        self.python_state.restore()
        for tensor, value, (trains, geometry) in zip(self.state.values(), self.values, self.forms):
            tensor.grad = None
            if tensor.is_leaf and tensor.requires_grad != trains:
                tensor.requires_grad_(trains)
            if tensor.dtype == value.dtype and _geometry(tensor) != geometry:
                tensor.data = value.clone()  # the call has turned or resized it
            elif tensor.dtype != value.dtype or not torch.equal(tensor.data, value):
                tensor.data.copy_(value)  # without a new version, since a backward of the script may follow

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """Restore the state and its gradients when the block ends."""
        gradients = [tensor.grad for tensor in self.state.values()]
        try:
            yield
        finally:
            self._put_back()
            for tensor, gradient in zip(self.state.values(), gradients):
                tensor.grad = gradient

    @contextlib.contextmanager
    def widened(self, widen: Callable[[Any], Any]) -> Iterator[None]:
        """Widen the state: autograd and convolutions look at dtypes before a dispatch mode sees them."""
        narrow = [tensor.data for tensor in self.state.values()]
        self.leaves.widen = widen
        for tensor, value in zip(self.state.values(), narrow):
            tensor.data = widen(value)
        try:
            yield
        finally:
            self.leaves.widen = as_it_is
            for tensor, value in zip(self.state.values(), narrow):
                tensor.grad = None
                tensor.data = value

    @contextlib.contextmanager
    def forward_region(self, autocast: bool = True) -> Iterator[list[warnings.WarningMessage]]:
        """Enter the grad mode of the call. Autocast stays as in the script, but is off for double precision."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self.call.inference))
            stack.enter_context(torch.set_grad_enabled(self.call.grad))
            if not autocast:
                stack.enter_context(torch.autocast("cpu", enabled=False))
            given = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always")
            yield given

    def surroundings(self) -> contextlib.AbstractContextManager[Any]:
        """Return an empty context: the comparison already runs in the contexts of the call."""
        return contextlib.nullcontext()


def _geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.shape, tensor.stride()) if tensor.layout == torch.strided else (tensor.shape,)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _state(function: Any, arguments: Sequence[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters and buffers, by name, of the modules of the function and of its arguments, each once."""
    seen: set[int] = set()
    given = ((f"argument {at}.", leaf) for at, leaf in enumerate(arguments))
    for prefix, module in (*_reached(function), *given):
        if isinstance(module, torch.nn.Module):
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield f"{prefix}{name}", tensor


def _reached(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield what `function` is or belongs to, with the attributes of that object, or what the function refers to."""
    owner = getattr(function, "__self__", None)
    if isinstance(function, torch.nn.Module) or isinstance(owner, torch.nn.Module):
        yield "", owner if isinstance(owner, torch.nn.Module) else function
        return
    yield from ((f"self.{name}.", value) for name, value in getattr(owner, "__dict__", {}).items())
    try:
        reached = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # not a Python function, or some of its variables are not set yet
        return
    yield from ((f"{name}.", value) for name, value in {**reached.globals, **reached.nonlocals}.items())


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the script's random number generators when the block ends."""
    numpy = sys.modules.get("numpy")
    states = random.getstate(), numpy.random.get_state() if numpy else None
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            random.setstate(states[0])
            if numpy:
                numpy.random.set_state(states[1])
