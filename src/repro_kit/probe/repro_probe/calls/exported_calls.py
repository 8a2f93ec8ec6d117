"""Compare an exported program with the model that was exported: results, writes to arguments, parameters and buffers.

The model's calls are made with a copy of the model from before the export, whose parameters and buffers get the values
of the exported program's before each call. The example inputs are compared when the export ends, and so are the first
calls of each module that `ExportedProgram.module` makes for the user.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

from repro_probe.calls.calls import WatchedCalls
from repro_probe.calls.compare_calls import undisturbed
from repro_probe.calls.copied_arguments import cloned
from repro_probe.calls.python_state import ReachableState
from repro_probe.change.override import is_users
from repro_probe.judge import compare_outputs
from repro_probe.judge.compare_outputs import Tolerance
from repro_probe.protocol.failure_data import OF_CONTENT, DifferenceData
from repro_probe.protocol.findings import CompiledCallData
from repro_probe.protocol.recipe_data import RECIPE_DEFAULTS
from repro_probe.run.outputs import Leaf, Outcome

_CALLS = 10  # calls of one module that are compared
_CLOSE, _CLOSE_IN_16_BITS = 1e-3, 5e-2  # decompositions round otherwise than the operators that they replace

Export = Callable[..., Any]


class ExportedCalls:
    """Compares what the script exports, and notes the comparisons in the records of `calls`."""

    def __init__(self, calls: WatchedCalls) -> None:
        self.calls = calls
        self.models: dict[str, _Model] = {}  # by the code of the exported graph, which survives saving and loading
        self.make_module = torch.export.ExportedProgram.module
        torch.export.ExportedProgram.module = self._watched_module()

    def export(self, original: Export, mod: Any, args: Any, kwargs: Any = None, **options: Any) -> Any:
        """Export as `original` does, and compare the exported program on the example inputs."""
        record: CompiledCallData = {"name": f"{type(mod).__name__} (exported)", "calls": 0, "backward": False}
        try:
            model = _Model(copy.deepcopy(mod), record)
        except Exception as error:  # what a user's class raises
            record["problem"] = f"{type(mod).__name__} cannot be copied: {type(error).__name__}: {error}"[:300]
            model = None
        program = original(mod, args, kwargs, **options)
        if type(program) is torch.export.ExportedProgram:
            self.calls.add(record)
            if model is not None:
                self.models[program.graph_module.code] = model
                self._compare_examples(program, model, args, kwargs or {})
        return program

    def _compare_examples(self, program: Any, model: _Model, args: Any, kwargs: Any) -> None:
        try:
            with undisturbed():
                module = copy.deepcopy(self.make_module(program))  # its buffers are those of the program
                model.watch(module)
                module(*tree_map(cloned, args), **tree_map(cloned, kwargs))
        except Exception as error:
            model.record["problem"] = f"the exported program raises {type(error).__name__}: {error}"[:300]
        self.calls.write()

    def _watched_module(self) -> Callable[..., Any]:
        original = self.make_module

        @functools.wraps(original)
        def module(program: Any, *positional: Any, **named: Any) -> Any:
            made = original(program, *positional, **named)
            model = self.models.get(program.graph_module.code)
            if model is not None and is_users(sys._getframe(1)):
                model.watch(made, self.calls.write)
            return made

        return module


class _Before(NamedTuple):
    """What the model does in eager in a call that the exported program is about to make, twice."""

    first: Outcome
    second: Outcome
    arguments: list[Any]  # leaves, which the exported program may write to


class _Model:
    """A copy of a model from before its export."""

    def __init__(self, model: torch.nn.Module, record: CompiledCallData) -> None:
        self.model = model
        self.record = record
        self.before: _Before | None = None

    def watch(self, module: torch.nn.Module, written: Callable[[], None] | None = None) -> None:
        """Compare the first calls of `module`; `written` is called after each."""

        def begin(_: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
            if not torch.compiler.is_compiling():
                self._begin(module, args, kwargs)

        def end(_: Any, args: Any, kwargs: Any, result: Any) -> None:
            if not torch.compiler.is_compiling():
                self._end(module, result)
                if written is not None:
                    written()

        module.register_forward_pre_hook(begin, with_kwargs=True)
        module.register_forward_hook(end, with_kwargs=True)

    def _begin(self, module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.record["calls"] += 1
        self.before = None
        if self.record["calls"] > _CALLS or self.record.get("difference"):
            return
        try:
            with undisturbed():
                first = self._eager(module, args, kwargs)
            with undisturbed():
                second = self._eager(module, args, kwargs)
        except Exception as error:
            self.record["problem"] = f"the model raises {type(error).__name__} in eager: {error}"[:300]
            return
        self.before = _Before(first, second, tree_leaves((args, kwargs)))

    def _eager(self, module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Outcome:
        theirs, mine = _state(module), _state(self.model)
        for name in mine.keys() & theirs.keys():
            mine[name].data.copy_(theirs[name].data)
        args, kwargs = tree_map(cloned, (args, kwargs))
        random = torch.random.get_rng_state()
        python_state = ReachableState(torch, [self.model], mine.values())  # an export keeps it as it was
        try:
            result = self.model(*args, **kwargs)
            outcome = _outcome(result, tree_leaves((args, kwargs)), _state(self.model))
        finally:
            python_state.restore()
        outcome.random = not torch.equal(random, torch.random.get_rng_state())
        return outcome

    def _end(self, module: torch.nn.Module, result: Any) -> None:
        if self.before is None:
            return
        first, second, arguments = self.before
        self.before = None
        exported = _outcome(result, arguments, _state(module))
        shared = first.after.keys() & exported.after.keys()
        for outcome in (first, second, exported):
            outcome.after = {name: leaf for name, leaf in outcome.after.items() if name in shared}
        if first.random or _differences(first, second):
            self.record["problem"] = "not compared: two calls in eager give other results, or draw random numbers"
            return
        self.record["compared"] = self.record.get("compared", 0) + 1
        found = _differences(first, exported)
        if found:
            self.record["difference"], self.record["also"] = found[0], found[1:]


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _outcome(result: Any, arguments: Sequence[Any], state: Mapping[str, torch.Tensor]) -> Outcome:
    leaves = [Leaf(leaf) for leaf in tree_leaves(result)]
    outcome = Outcome()
    outcome.outputs = [(leaves, f"{len(leaves)} values")]
    tensors = {f"argument {at}": leaf for at, leaf in enumerate(arguments) if isinstance(leaf, torch.Tensor)}
    outcome.after = {name: Leaf(tensor) for name, tensor in {**tensors, **state}.items()}
    return outcome


def _differences(eager: Outcome, exported: Outcome) -> list[DifferenceData]:
    leaves = [leaf.value for leaf in eager.places().values() if leaf is not None and leaf.is_tensor]
    short = any(value.is_floating_point() and value.element_size() < 4 for value in leaves)
    close = _CLOSE_IN_16_BITS if short else _CLOSE
    tolerance = Tolerance({**RECIPE_DEFAULTS, "rtol": close, "atol": close})
    found = compare_outputs.kinds_of_difference(eager, exported, tolerance)
    return [each for each in found if each["kind"] in OF_CONTENT]
