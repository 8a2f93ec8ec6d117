"""Compile a program by torch.export, AOTInductor or precompilation.

`repro_kit/artefact/recipe_code.py` writes the same for `repro.py`.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro_probe.protocol.recipe_data import AOT_INDUCTOR, EXPORT_DECOMPOSED, EXPORT_DRAFT, EXPORT_STRICT, PRECOMPILE

Function = Callable[..., Any]
_OWNED = (torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter))  # no Buffer before torch 2.5


def compiled_by(entry: str, graph: Function, names: Sequence[str], options: dict[str, Any], dynamic: Any) -> Function:
    """Return a function that compiles `graph` at its first call, and runs what was compiled.

    `names` are the parameters of `graph`. `dynamic` True lets every dimension be dynamic; otherwise those must be that
    `mark_dynamic` marked. Parameters and buffers among the first arguments become those of the exported
    module, which keeps them between calls.
    """
    made: list[Function] = []
    owned: list[int] = []

    def run(*arguments: Any) -> Any:
        if not made:
            owned.extend(at for at, value in enumerate(arguments) if isinstance(value, _OWNED))
            module = _module(graph, names, {names[at]: arguments[at] for at in owned})
            inputs = _without(arguments, owned)
            made.append(_compiled(entry, module, inputs, _shapes(inputs, dynamic), options))
        return made[0](*_without(arguments, owned))

    return run


def _without(arguments: Sequence[Any], owned: Sequence[int]) -> tuple[Any, ...]:
    return tuple(value for at, value in enumerate(arguments) if at not in owned)


def _module(graph: Function, names: Sequence[str], parameters: dict[str, Any]) -> torch.nn.Module:
    """Return `graph` as a module with these parameters; its `forward` takes the other arguments by their names."""
    inputs = [name for name in names if name not in parameters]
    passed = [f"self.{name}" if name in parameters else name for name in names]
    namespace: dict[str, Any] = {"graph": graph}
    exec(f"def forward({', '.join(['self', *inputs])}):\n    return graph({', '.join(passed)})", namespace)
    module = type("Module", (torch.nn.Module,), {"forward": namespace["forward"]})()
    for name, value in parameters.items():
        setattr(module, name, value)
    return module


def _shapes(inputs: Sequence[Any], dynamic: Any) -> tuple[Any, ...] | None:
    """Return the dynamic dimensions of each input for torch.export; None where all are static."""
    size = torch.export.Dim.AUTO if dynamic else torch.export.Dim.DYNAMIC
    dims = [_dims(value, dynamic) for value in inputs]
    return tuple(dict.fromkeys(own, size) or None for own in dims) if any(dims) else None


def _dims(value: Any, dynamic: Any) -> list[int]:
    if not isinstance(value, torch.Tensor):
        return []
    return list(range(value.dim())) if dynamic else sorted(getattr(value, "_dynamo_dynamic_indices", ()))


def _compiled(
    entry: str, module: torch.nn.Module, inputs: tuple[Any, ...], shapes: Any, options: dict[str, Any]
) -> Function:
    """Compile `module` for `inputs`, and return what runs it."""
    if entry == PRECOMPILE:
        return _precompiled(module, inputs)
    if entry == EXPORT_DRAFT:
        exported: Any = torch.export.draft_export(module, inputs, dynamic_shapes=shapes)
    else:
        exported = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=entry == EXPORT_STRICT)
    if entry == AOT_INDUCTOR:
        from torch import _inductor

        package = _inductor.aoti_compile_and_package(exported, inductor_configs=dict(options))
        return _inductor.aoti_load_package(package)
    function: Function = (exported.run_decompositions() if entry == EXPORT_DECOMPOSED else exported).module()
    return function


def _precompiled(module: torch.nn.Module, inputs: tuple[Any, ...]) -> Function:
    from torch.compiler import precompile

    with tempfile.TemporaryDirectory() as directory:
        files = os.path.join(directory, "artifact.py"), os.path.join(directory, "cache")
        with precompile.capture(torch.nn.Module.__call__, artifact_path=files[0], cache_path=files[1]) as capture:
            capture(module, *inputs)
        return functools.partial(precompile.load(*files), module)
