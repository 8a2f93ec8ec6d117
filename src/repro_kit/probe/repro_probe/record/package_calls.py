"""Record the calls of what AOTInductor compiled, as later calls of its graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

    from repro_probe.record.graph_recorder import GraphRecorder

_METHODS = ("run", "boxed_run")


class PackageCalls:
    """Knows the graphs that AOTInductor compiled, and records the calls of packages for them.

    Their inputs may be laid out otherwise in later calls. Each way to load a package ends in `run` or `boxed_run`
    of a class of torch's C++ (torch/csrc/inductor/aoti_package and aoti_runner), which gets the tensors among the
    inputs, flat and in the order of the graph.
    """

    def __init__(self, recorder: GraphRecorder) -> None:
        import torch

        self.recorder = recorder
        self.compiled: list[tuple[int, list[Any]]] = []  # graph, and for each input the form of a tensor, or the value
        for name in dir(getattr(torch._C, "_aoti", None)):
            kind = getattr(torch._C._aoti, name)
            if isinstance(kind, type):
                for method in set(_METHODS) & set(vars(kind)):
                    self._watch(kind, method)

    def add(self, graph: int, example_inputs: Sequence[Any]) -> None:
        """Note that `graph` was compiled with these inputs, which count as those of its first call."""
        import torch

        forms = [_form(value) if isinstance(value, torch.Tensor) else value for value in example_inputs]
        self.compiled.append((graph, forms))
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
        """Return (graph, all its inputs); None unless the tensors fit one graph alone: no package names its graph."""
        fitting = [
            (graph, expected)
            for graph, expected in self.compiled
            if [value for value in expected if isinstance(value, _Form)] == [_form(value) for value in inputs]
        ]
        if len(fitting) != 1:
            return None
        ((graph, expected),) = fitting
        given = iter(inputs)
        return graph, [next(given) if isinstance(value, _Form) else value for value in expected]


class _Form(NamedTuple):
    """What does not change among the inputs of one compiled graph."""

    dims: int
    dtype: torch.dtype
    device: torch.device


def _form(tensor: torch.Tensor) -> _Form:
    return _Form(tensor.dim(), tensor.dtype, tensor.device)
