"""Let an unmodified script run without torch.compiler.precompile and `aot_compile`: stand-ins run its functions."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from repro_probe.change.export_stand_ins import CAPTURE, Function, hold_place, place_of, wrap
from repro_probe.common.imports import when_imported
from repro_probe.protocol.recipe_data import PRECOMPILE

_LOAD = ("torch.compiler", "load_compiled_function")


def replace_aot_compile() -> None:
    """Compile nothing ahead for the rest of the run.

    A function gets a stand-in that runs the script's own function. No file is written but placeholders. Hooked is
    `_TorchDynamoContext.__call__` (torch/_dynamo/eval_frame.py), which adds `aot_compile` to what `torch.compile`
    returns.
    """
    saved: dict[str, AheadStandIn] = {}
    when_imported("torch._dynamo.eval_frame", lambda module: _compile_nothing_ahead(module, saved))
    wrap(*_LOAD, functools.partial(_loading, saved))


class AheadStandIn:
    """What a script gets in place of a function that is compiled ahead; a method takes its object first, as there."""

    def __init__(self, function: Any, saved: dict[str, AheadStandIn]) -> None:
        self.function = getattr(function, "__func__", function)
        self.saved = saved

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Run the script's own function."""
        return self.function(*positional, **named)

    def save_compiled_function(self, path: Any, *_: Any, **__: Any) -> SimpleNamespace:
        """Remember this stand-in under the path."""
        self.saved[os.path.abspath(path)] = self
        hold_place(path)
        return SimpleNamespace(external_data={})

    def disable_guard_check(self) -> None:
        """Do nothing: there are no guards."""


def _compile_nothing_ahead(module: Any, saved: dict[str, AheadStandIn]) -> None:
    original = module._TorchDynamoContext.__call__

    @functools.wraps(original)
    def call(self: Any, fn: Any) -> Any:
        compiled = original(self, fn)
        if inspect.isfunction(compiled) and hasattr(compiled, "aot_compile"):
            compiled.aot_compile = lambda example_inputs: AheadStandIn(fn, saved)
        return compiled

    module._TorchDynamoContext.__call__ = call


def _loading(saved: dict[str, AheadStandIn], original: Function) -> Function:
    """Return a function that loads the stand-in that was saved to a file; any other file is loaded by torch."""

    def load(file: Any, *positional: Any, **named: Any) -> Any:
        name = getattr(file, "name", None)
        names = (os.path.abspath(name), place_of(name)) if isinstance(name, str) else ()
        stand_in = next((saved[name] for name in names if name in saved), None)
        return stand_in or original(file, *positional, **named)

    return load


_LOAD_PRECOMPILED = ("torch.compiler.precompile", "load")


def replace_precompile(backend: str | None) -> None:
    """Let what the script precompiles use `backend`: None for eager, or a backend of `torch.compile`."""
    if backend == PRECOMPILE:
        return  # the script precompiles by itself
    kept: dict[str, LoadedStandIn] = {}
    wrap(*CAPTURE, functools.partial(_capturing, kept, backend))
    wrap(*_LOAD_PRECOMPILED, functools.partial(_loading_precompiled, kept))


class CaptureStandIn:
    """What a script gets in place of a capture: it runs `function`, and calls `keep` where torch writes an artifact."""

    def __init__(self, function: Function, keep: Callable[[], None]) -> None:
        self.function = function
        self.save = keep

    def __enter__(self) -> CaptureStandIn:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.save()

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Run the function."""
        return self.function(*positional, **named)


class LoadedStandIn:
    """What a script gets in place of a loaded artifact: it runs `function`."""

    installed = False

    def __init__(self, function: Function) -> None:
        self.function = function

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Run the function."""
        return self.function(*positional, **named)

    def __enter__(self) -> LoadedStandIn:
        return self

    def __exit__(self, *_: Any) -> None:
        self.unload()

    def unload(self) -> None:
        """Do nothing: nothing was installed."""


def _capturing(kept: dict[str, LoadedStandIn], backend: str | None, _: Function) -> Function:
    def capture(fn: Function, /, *, artifact_path: Any, **_: Any) -> CaptureStandIn:
        import torch

        function = fn if backend is None else torch.compile(fn, backend=backend)
        path = os.path.abspath(artifact_path)
        return CaptureStandIn(function, lambda: kept.update({path: LoadedStandIn(function)}))

    return capture


def _loading_precompiled(kept: dict[str, LoadedStandIn], original: Function) -> Function:
    """Return a function that loads the stand-in that was kept under a path; any other artifact is loaded by torch."""

    def load(artifact_path: Any, *positional: Any, **named: Any) -> Any:
        return kept.get(os.path.abspath(artifact_path)) or original(artifact_path, *positional, **named)

    return load
