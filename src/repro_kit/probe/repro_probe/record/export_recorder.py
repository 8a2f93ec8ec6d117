"""Record the calls of torch.export, AOTInductor and precompilation, and the graphs that they compile.

AOTInductor's graph is seen in `compile_fx_aot` (torch/_inductor/compile_fx.py), that of torch.compiler.precompile in
`compile_to_python` (torch/_functorch/aot_autograd.py), and that of `run_decompositions` in the exported program.
When an export fails it has made no graph; then Dynamo traces the model once more, and the graph that it makes, if it
can, is recorded as the one that was exported.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from repro_probe.change.export_stand_ins import CAPTURE, EXPORTS, PACKAGERS, Function, entry_of, wrap
from repro_probe.change.override import is_users
from repro_probe.common.imports import when_imported
from repro_probe.protocol.graph_data import BackendData, CompileSettings
from repro_probe.protocol.recipe_data import AOT_INDUCTOR, EXPORT_DECOMPOSED, EXPORT_STRICT, PACKAGED, PRECOMPILE

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


#: Settings that say how AOTInductor writes its files, and nothing about the graph.
_OF_FILES = ("aot_inductor.serialized_in_spec", "aot_inductor.serialized_out_spec", "aot_inductor.package")


def install(recorder: GraphRecorder) -> None:
    """Record what the script exports and packages from now on."""
    for module, name in (*EXPORTS, *PACKAGERS, CAPTURE):
        wrap(module, name, functools.partial(_noted, recorder, name))
    when_imported("torch.export.exported_program", lambda module: _watch_decompositions(recorder, module))
    when_imported("torch._inductor.compile_fx", lambda module: _watch_aot(recorder, module))
    when_imported("torch._functorch.aot_autograd", lambda module: _watch_precompile(recorder, module))


def _noted(recorder: GraphRecorder, name: str, original: Function) -> Function:
    def call(*positional: Any, **named: Any) -> Any:
        given = _arguments(original, positional, named)
        entry = entry_of(name, bool(given.get("strict")))
        recorder.event("compile-call", None, settings=_settings(entry, given))
        try:
            with _for_dynamo(recorder, entry):
                return original(*positional, **named)
        except Exception:
            if entry not in PACKAGED:
                _trace_by_dynamo(recorder, entry, given)
            raise

    return call


def _for_dynamo(recorder: GraphRecorder, entry: str) -> contextlib.AbstractContextManager[None]:
    """Return a context in which Dynamo's graphs count as exported; only a strict export lets Dynamo trace."""
    return recorder.compiled_by(_backend(entry)) if entry == EXPORT_STRICT else contextlib.nullcontext()


def _arguments(function: Function, positional: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, with their defaults; only the named ones where they do not fit."""
    try:
        bound = inspect.signature(function).bind(*positional, **named)
    except TypeError:
        return named
    bound.apply_defaults()
    return dict(bound.arguments)


def _settings(entry: str, given: dict[str, Any]) -> CompileSettings:
    options = given.get("inductor_configs") or given.get("options")
    return {"backend": entry, "mode": None, "dynamic": None, "fullgraph": None, "options": options}


def _backend(entry: str, options: dict[str, Any] | None = None) -> BackendData:
    return {"name": entry, "mode": None, "options": options or {}, "dynamic": None}


def _trace_by_dynamo(recorder: GraphRecorder, entry: str, given: dict[str, Any]) -> None:
    """Let Dynamo trace the model of a failed export, so that the recorder sees a graph of torch's operators.

    The model does not run, and the script's own tensors stay as they are.
    """
    import torch
    import torch._dynamo
    from torch.utils import _pytree

    with contextlib.suppress(Exception), _without_trace():  # a model that Dynamo cannot trace has no graph
        torch._dynamo.reset()
        arguments, named = _pytree.tree_map(_copy, (given["args"], given.get("kwargs") or {}))
        _mark_dynamic(given["mod"], arguments, named, given.get("dynamic_shapes"))
        settings = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
        with torch._dynamo.config.patch(settings), recorder.compiled_by(_backend(entry)):
            torch._dynamo.optimize(_stop, nopython=True)(given["mod"])(*arguments, **named)


def _copy(value: Any) -> Any:
    """Return a copy of a tensor that can be marked; any other value as it is."""
    if not hasattr(value, "detach"):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _stop(gm: Any, example_inputs: Any) -> Any:
    """Be the backend of a model that is only traced."""
    raise RuntimeError("the model is only traced")


@contextlib.contextmanager
def _without_trace() -> Iterator[None]:
    """Keep torch's structured trace free of what the probe itself compiles."""
    trace = logging.getLogger("torch.__trace")
    before, trace.disabled = trace.disabled, True
    try:
        yield
    finally:
        trace.disabled = before


def _mark_dynamic(model: Any, arguments: Any, named: Any, shapes: Any) -> None:
    """Mark the dimensions of the arguments that must be dynamic by `dynamic_shapes` of torch.export."""
    if not shapes:
        return
    import torch
    from torch.export import dynamic_shapes as specs

    def mark(path: Any, value: Any, spec: Any) -> None:
        if not isinstance(value, torch.Tensor) or spec is None:
            return
        dims = spec.items() if isinstance(spec, dict) else enumerate(spec)
        for dim, size in dims:
            if size is not None and not isinstance(size, int) and size not in (specs.Dim.STATIC, specs.Dim.AUTO):
                torch._dynamo.mark_dynamic(value, dim)

    whole = specs._combine_args(model, arguments, named)
    specs._tree_map_with_path(mark, whole, _by_name(shapes, whole), tree_name="inputs")


def _by_name(shapes: Any, whole: dict[str, Any]) -> Any:
    return shapes if isinstance(shapes, dict) else dict(zip(whole, shapes))


def _watch_decompositions(recorder: GraphRecorder, module: Any) -> None:
    original = module.ExportedProgram.run_decompositions

    @functools.wraps(original)
    def run_decompositions(self: Any, *positional: Any, **named: Any) -> Any:
        if not is_users(sys._getframe(1)):
            return original(self, *positional, **named)
        settings = _settings(EXPORT_DECOMPOSED, {})
        recorder.event("compile-call", None, settings=settings)
        with recorder.compiling(lambda: _graph_of(self), _backend(EXPORT_DECOMPOSED)):
            return original(self, *positional, **named)

    module.ExportedProgram.run_decompositions = run_decompositions


def _graph_of(exported: Any) -> tuple[Any, Sequence[Any]]:
    """Return the graph of an exported program without its checks of the inputs, and its flat example inputs."""
    import torch
    from torch.utils import _pytree

    gm = exported.module()
    gm.graph.set_codegen(torch.fx.graph.CodeGen())  # takes flat inputs
    for node in list(gm.graph.nodes):
        if node.op == "call_module" and node.target == "_guards_fn":
            gm.graph.erase_node(node)
    gm.recompile()
    return gm, _pytree.tree_leaves(exported.example_inputs)


def _watch_aot(recorder: GraphRecorder, module: Any) -> None:
    original: Callable[..., Any] = module.compile_fx_aot
    packages = PackageCalls(recorder)

    @functools.wraps(original)
    def compile_fx_aot(model_: Any, example_inputs_: Any, *rest: Any, **named: Any) -> Any:
        patches = named.get("config_patches") or {}
        options = {name: value for name, value in patches.items() if name not in _OF_FILES}
        with recorder.compiling(lambda: (model_, example_inputs_), _backend(AOT_INDUCTOR, options)) as graph:
            result = original(model_, example_inputs_, *rest, **named)
        packages.add(graph, example_inputs_)
        return result

    module.compile_fx_aot = compile_fx_aot


def _watch_precompile(recorder: GraphRecorder, module: Any) -> None:
    original: Callable[..., Any] | None = getattr(module, "compile_to_python", None)
    if original is None:
        return  # this torch cannot precompile

    @functools.wraps(original)
    def compile_to_python(gm: Any, example_inputs: Any, *rest: Any, **named: Any) -> Any:
        with recorder.compiling(lambda: (_flat(gm), example_inputs), _backend(PRECOMPILE)):
            return original(gm, example_inputs, *rest, **named)

    module.compile_to_python = compile_to_python


def _flat(gm: Any) -> Any:
    """Return a copy of `gm` that takes its inputs one by one; make_fx lets a module take them as a tree."""
    import torch

    graph = torch.fx.Graph()
    output = graph.graph_copy(gm.graph, {})
    graph.output(output)
    return torch.fx.GraphModule(gm, graph)
