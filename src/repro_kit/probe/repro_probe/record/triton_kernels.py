"""Describe the user's Triton kernels that a graph launches."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch

from repro_probe.protocol.graph_data import KernelData, KernelLaunchData

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
