"""Record the calls of what AOTInductor compiled, as later calls of its graph: their inputs may be laid out otherwise.

Each way to load a package ends in `run` or `boxed_run` of a class of torch's C++ (torch/csrc/inductor/aoti_package and
aoti_runner), which gets the tensors among the inputs, flat and in the order of the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from repro_probe.record.graph_recorder import GraphRecorder

_METHODS = ("run", "boxed_run")


class PackageCalls:
    """Knows the graphs that AOTInductor compiled, and records the calls of packages for them."""

    def __init__(self, recorder: GraphRecorder) -> None:
        self.recorder = recorder
        self.compiled: list[tuple[int, list[bool], list[Any]]] = []  # graph, whether each input is a tensor, the others
        for name in dir(getattr(torch._C, "_aoti", None)):
            kind = getattr(torch._C._aoti, name)
            if isinstance(kind, type):
                for method in set(_METHODS) & set(vars(kind)):
                    self._watch(kind, method)

    def add(self, graph: int, example_inputs: Sequence[Any]) -> None:
        """Note that `graph` was compiled with these inputs, which count as those of its first call."""
        tensors = [isinstance(value, torch.Tensor) for value in example_inputs]
        others = [value for value, is_tensor in zip(example_inputs, tensors) if not is_tensor]
        self.compiled.append((graph, tensors, others))
        self.recorder.first_call_is_known(graph)

    def _watch(self, kind: Any, method: str) -> None:
        original = getattr(kind, method)

        @functools.wraps(original)
        def run(self_: Any, inputs: list[Any], *rest: Any, **named: Any) -> Any:
            found = self._graph_of(inputs)
            if found is None:
                return original(self_, inputs, *rest, **named)
            graph, arguments = found
            return self.recorder.watch(graph, lambda *_: original(self_, inputs, *rest, **named))(*arguments)

        setattr(kind, method, run)

    def _graph_of(self, inputs: Sequence[Any]) -> tuple[int, list[Any]] | None:
        """Return (graph, all its inputs): the last graph that was compiled with as many tensors."""
        for graph, tensors, others in reversed(self.compiled):
            if sum(tensors) == len(inputs):
                given, rest = iter(inputs), iter(others)
                return graph, [next(given) if is_tensor else next(rest) for is_tensor in tensors]
        return None
