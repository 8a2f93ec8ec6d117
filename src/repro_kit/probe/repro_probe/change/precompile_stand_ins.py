"""Let a script run without torch.compiler.precompile, or compile by another backend, with no change to the script.

A capture gets a stand-in that runs the script's own function. No file is written, since the user's own may be there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from repro_probe.change.export_stand_ins import CAPTURE, Function, wrap
from repro_probe.protocol.entries import PRECOMPILE

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
