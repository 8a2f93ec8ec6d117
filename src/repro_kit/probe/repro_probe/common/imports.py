"""Run a callback as soon as the program has imported a module, without importing the module."""

from __future__ import annotations

import gc
import importlib.abc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

Callback = Callable[[Any], object]


class _Loader(importlib.abc.Loader):
    """Delegates to the real loader, and runs the callbacks after it."""

    def __init__(self, loader: Any, callbacks: list[Callback]) -> None:
        self._loader = loader
        self._callbacks = callbacks

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module must look as if this loader had not been there.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with _no_collection():
            self._loader.exec_module(module)
        for callback in self._callbacks:
            callback(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collection: an import makes many objects and hardly any garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.wanted: dict[str, list[Callback]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        callbacks = self.wanted.pop(name, None)
        if callbacks is None:
            return None
        spec = _find(name, path)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, callbacks)
        return spec


def _find(name: str, path: Any) -> Any:
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


_finder = _Finder()


def when_imported(name: str, callback: Callback) -> None:
    """Call `callback(module)` once, after module `name` has been imported; now if it is imported already."""
    if name in sys.modules:
        callback(sys.modules[name])
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.wanted.setdefault(name, []).append(callback)
