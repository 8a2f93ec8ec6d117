"""Describe one of Dynamo's graphs as data: its code, its sub-graphs, its inputs, and how the graph is compiled."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, cast

import torch

from repro_probe.common import torch_environment
from repro_probe.protocol.graph_data import (
    BackendData,
    GraphContent,
    GraphSettings,
    InputData,
    KernelData,
    KernelLaunchData,
    NameData,
    TensorData,
)
from repro_probe.protocol.recipe_data import AutocastData
from repro_probe.record import surroundings
from repro_probe.record.values import ValueStore, describe_tensors

_MODULE = "torch._higher_order_ops.triton_kernel_wrap"
_MUTATION = "triton_kernel_wrapper_mutation"


def describe_launches(gm: torch.fx.GraphModule) -> dict[str, KernelLaunchData]:
    """Return the launches of `gm` and its sub-graphs, by ``<kernel_idx>/<constant_args_idx>``; empty for none.

    A graph names kernels and some of their arguments by numbers, whose meaning Dynamo keeps in tables
    (`KernelSideTable` in torch/_higher_order_ops/triton_kernel_wrap.py).
    """
    module: Any = sys.modules.get(_MODULE)
    launches: dict[str, KernelLaunchData] = {}
    for graph in (part for part in gm.modules() if isinstance(part, torch.fx.GraphModule)):
        for node in graph.graph.nodes:
            if module is None or getattr(node.target, "__name__", "") != _MUTATION:
                continue
            kernel, constants = node.kwargs["kernel_idx"], node.kwargs["constant_args_idx"]
            table = module.kernel_side_table
            launched = table.get_kernel(kernel)
            given = {**table.get_constant_args(constants), **_options(launched)}
            launches[f"{kernel}/{constants}"] = {
                "kernel": _describe(launched),
                "constants": {name: _text(value) for name, value in given.items()},
            }
    return launches


def _describe(kernel: Any) -> KernelData:
    """Return where the Python function of `kernel` is, and the arguments of each configuration that it tries."""
    configs = [dict(config.kwargs) for config in getattr(kernel, "configs", None) or ()]
    function = kernel
    while hasattr(function, "fn") and not inspect.isfunction(function):  # autotuned, with heuristics, compiled
        function = function.fn
    code = getattr(function, "__code__", None)
    return {
        "module": getattr(function, "__module__", None),
        "name": getattr(function, "__qualname__", None),
        "file": code.co_filename if code is not None else None,
        "configs": [{name: _text(value) or "" for name, value in config.items()} for config in configs],
    }


def _options(kernel: Any) -> dict[str, int]:
    """Return the options of a launch: Dynamo makes them the only configuration of the kernel (`call_triton_kernel`)."""
    configs: Any = getattr(kernel, "configs", None) or ()
    if len(configs) != 1 or configs[0].kwargs:
        return {}
    options = {name: getattr(configs[0], name, None) for name in ("num_warps", "num_stages")}
    return {name: value for name, value in options.items() if value is not None}


def _text(value: Any) -> str | None:
    """Return `value` as Python code; None where that is not known."""
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return repr(value)
    language: Any = sys.modules.get("triton.language")
    known = vars(language).items() if language is not None else ()
    return next((f"triton.language.{name}" for name, each in known if each is value), None)  # such as a dtype


#: A frame in the stack of a node.
_PLACE = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)
_TORCH = os.path.dirname(torch.__file__) + os.sep


def describe_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    store: ValueStore,
    *,
    backend: BackendData,
    fullgraph: bool,
) -> GraphContent:
    """Return `gm`, compiled by `backend`, as JSON data. Raises TypeError when an input cannot be recorded.

    `modules` has the code of sub-graphs by path, and `names` the extra globals of the code as import paths.
    """
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    code, names = _code_of(gm)
    modules = {}
    for path, module in gm.named_modules():
        if path and isinstance(module, torch.fx.GraphModule):
            modules[path], more = _code_of(module)
            names.update(more)
    return {
        "code": code,
        "modules": modules,
        "names": names,
        "launches": describe_launches(gm),
        "lines": _user_lines(gm),
        "inputs": _describe_inputs(placeholders, example_inputs, store),
        "constants": _describe_constants(gm, store),
        "statements": sum(node.op in ("call_function", "call_method", "call_module") for node in gm.graph.nodes),
        "recipe": {**_recipe(), "fullgraph": fullgraph},
        "backend": backend,
    }


def _code_of(gm: torch.fx.GraphModule) -> tuple[str, dict[str, NameData]]:
    python = gm.graph.python_code("self")
    return python.src, {name: _import_path(value) for name, value in python.globals.items()}


def _user_lines(gm: torch.fx.GraphModule) -> dict[str, str]:
    """Return for each statement the innermost line outside of torch that Dynamo traced it from, where it is known."""
    lines = {}
    for node in gm.graph.nodes:
        places = _PLACE.findall(node.meta.get("stack_trace") or "")
        own = [f"{file}:{line}" for file, line in places if not file.startswith(_TORCH)]
        if own and node.op != "placeholder":
            lines[node.name] = own[-1]
    return lines


def _import_path(value: Any) -> NameData:
    """Describe how to import a global of generated code: its module, qualified name and defining file."""
    if inspect.ismodule(value):
        return {"module": value.__name__, "name": None, "file": getattr(value, "__file__", None)}
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    code = getattr(value, "__code__", None)
    return {
        "module": module,
        "name": name,
        "file": code.co_filename if code is not None else None,
        "value": repr(value) if isinstance(value, (int, float, bool, str)) else None,
    }


def _describe_inputs(
    placeholders: Sequence[torch.fx.Node], example_inputs: Sequence[Any], store: ValueStore
) -> list[InputData]:
    described = describe_arguments(example_inputs, store)
    for node, record in zip(placeholders, described):
        record["name"] = node.target
        argument = node.meta.get("grapharg")
        if argument is not None:
            source = getattr(argument, "source", None)
            name = getattr(source, "name", None)
            record["source"] = name() if callable(name) else name
            record["as_tensor"] = bool(getattr(argument, "pass_arg_as_tensor", False))
            if record["as_tensor"]:
                record["value"] = record.pop("scalar", None)
        example = node.meta.get("example_value", node.meta.get("val"))
        if isinstance(example, torch.Tensor):
            record["symbols"] = [str(size) for size in example.shape]
        elif example is not None:
            record["symbol"] = str(example)
    return described


def describe_arguments(arguments: Sequence[Any], store: ValueStore) -> list[InputData]:
    """Return a record for each argument: a tensor (see values.py), or a value of kind ``int``, ``float``, ``other``."""
    tensors = [(str(at), value) for at, value in enumerate(arguments) if isinstance(value, torch.Tensor)]
    described = describe_tensors(tensors, store)
    records: list[InputData] = []
    for at, value in enumerate(arguments):
        if str(at) in described:
            # A Python float that became dynamic arrives as a scalar tensor of type float64.
            scalar = value.detach().item() if value.dim() == 0 and value.dtype == torch.float64 else None
            records.append(cast(InputData, {**described[str(at)], "kind": "tensor", "scalar": scalar}))
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            # int(value) would add a guard; the hint does not.
            records.append({"kind": "int", "value": value.node.hint, "symbolic": True})
        elif isinstance(value, (bool, int, float)) or value is None:
            records.append({"kind": type(value).__name__, "value": value, "symbolic": False})
        else:
            records.append({"kind": "other", "value": repr(value)})
    return records


def _describe_constants(gm: torch.fx.GraphModule, store: ValueStore) -> dict[str, TensorData]:
    """Describe the tensors that the graph reads as its own attributes."""
    wanted = {}
    for path, module in [("", gm), *gm.named_modules()]:
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.op == "get_attr":
                value = _attribute(module, node.target)
                if isinstance(value, torch.Tensor):
                    wanted[(path + "." if path else "") + node.target] = value
    return describe_tensors(list(wanted.items()), store)


def _attribute(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part, None)
    return module


def _recipe() -> GraphSettings:
    settings = torch_environment.settings()
    return {
        "fullgraph": False,
        "grad_mode": (
            "inference_mode"
            if torch.is_inference_mode_enabled()
            else "enabled"
            if torch.is_grad_enabled()
            else "no_grad"
        ),
        "autocast": _autocast(),
        "device": surroundings.default_device(),
        "regions": surroundings.regions(sys._getframe(1)),
        "switches": surroundings.switches(),
        "compiled_autograd": surroundings.compiles_autograd(),
        "world": surroundings.world(),
        "threads": settings["threads"],
        "memory": settings["memory"],
        "default_dtype": settings["default_dtype"],
        "config": settings["config"],
    }


def _autocast() -> AutocastData | None:
    device = torch_environment.accelerator(torch)
    if device is None or not _autocast_enabled(device):
        device = "cpu"
    if not _autocast_enabled(device):
        return None
    dtype = str(_autocast_dtype(device)).replace("torch.", "")
    return {"device": device, "dtype": dtype, "cache_enabled": torch.is_autocast_cache_enabled()}


def _autocast_enabled(device: str) -> Any:
    try:
        return torch.is_autocast_enabled(device)
    except TypeError:  # before torch 2.4
        return torch.is_autocast_enabled() if device == "cuda" else torch.is_autocast_cpu_enabled()


def _autocast_dtype(device: str) -> Any:
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(device)
    return torch.get_autocast_gpu_dtype() if device == "cuda" else torch.get_autocast_cpu_dtype()


def backend_of(compiler_fn: Any) -> BackendData:
    """Describe the backend that the user chose, without torch's wrappers around it."""
    compiler_fn = _innermost(compiler_fn)
    backend: BackendData = {
        "name": getattr(compiler_fn, "compiler_name", None),
        "mode": None,
        "options": {},
        "dynamic": None,
    }
    kind = type(compiler_fn).__name__
    if kind == "_TorchCompileInductorWrapper":
        backend["name"] = "inductor"
        backend["dynamic"] = compiler_fn.dynamic
        backend["mode"], backend["options"] = _mode_of(compiler_fn)
        return backend
    if kind == "_TorchCompileWrapper":
        backend["dynamic"] = compiler_fn.dynamic
        backend["options"] = dict(getattr(compiler_fn, "kwargs", {}).get("options") or {})
        compiler_fn = compiler_fn.compiler_fn
    return _named(compiler_fn, backend)


def _innermost(compiler_fn: Any) -> Any:
    """Return the user's own backend, which torch wraps to restore its state, and to split the graphs of DDP."""
    names = ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable")  # the latter in torch before 2.8
    while True:
        inner = [getattr(compiler_fn, name) for name in names if hasattr(compiler_fn, name)]
        splitter: Any = getattr(compiler_fn, "__self__", None)
        if not inner and hasattr(splitter, "backend_compile_fn"):  # torch/_dynamo/backends/distributed.py
            inner = [splitter.backend_compile_fn]
        if not inner:
            return compiler_fn
        compiler_fn = inner[0]


def _mode_of(wrapper: Any) -> tuple[str | None, dict[str, Any]]:
    """Return (mode, options). Torch merges a mode into the options; the mode is found when the options match it."""
    from torch._inductor import list_mode_options

    config = dict(wrapper.config)
    for mode in list_mode_options():
        if config and config == list_mode_options(mode, wrapper.dynamic):
            return mode, {}
    return None, config


def _named(function: Any, backend: BackendData) -> BackendData:
    """Add the name of `function` to `backend`: its name in Dynamo's registry where it has one, else its own."""
    from torch._dynamo.backends import registry

    for name, registered in getattr(registry, "_COMPILER_FNS", {}).items():
        if registered is function or getattr(registered, "_torchdynamo_orig_backend", None) is function:
            backend["name"] = name
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None:
        backend["file"] = code.co_filename
        backend["qualname"] = getattr(function, "__qualname__", None)
    backend["name"] = backend["name"] or getattr(function, "__name__", None) or type(function).__name__
    return backend
