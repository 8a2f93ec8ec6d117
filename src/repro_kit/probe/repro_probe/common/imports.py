"""Run a callback as soon as the program has imported a module, without importing the module.

This module imports nothing that an interpreter has not loaded by itself (`sitecustomize.py`).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Callback = Callable[[Any], object]


class _Loader:
    """Delegates to the real loader, and runs the callbacks after it."""

    def __init__(self, loader: "Any", wanted: "dict[str, list[Callback]]") -> None:
        self._loader = loader
        self._wanted = wanted

    def create_module(self, spec: "Any") -> "Any":
        return self._loader.create_module(spec)

    def exec_module(self, module: "ModuleType") -> None:
        # The module must look as if this loader had not been there.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        callbacks = self._wanted.pop(module.__name__, [])
        import gc

        was_enabled = gc.isenabled()
        gc.disable()  # an import makes many objects and hardly any garbage
        try:
            self._loader.exec_module(module)
        finally:
            if was_enabled:
                gc.enable()
        for callback in callbacks:
            callback(module)

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)


class _Finder:
    def __init__(self) -> None:
        self.before: dict[str, Callable[[], object]] = {}
        self.wanted: dict[str, list[Callback]] = {}

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        begin = self.before.pop(name, None)
        if begin is not None:
            begin()
        if name not in self.wanted:
            return None
        spec = _find(name, path)
        if spec is not None and spec.loader is not None:  # a program may only ask whether there is such a module
            spec.loader = _Loader(spec.loader, self.wanted)
        return spec


def _find(name: str, path: "Any") -> "Any":
    finders = sys.meta_path
    for finder in finders[finders.index(_finder) + 1 :] if _finder in finders else finders:  # the others were asked
        if not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


_finder = _Finder()


def when_imported(name: str, callback: "Callback") -> None:
    """Call `callback(module)` once, after module `name` has been imported; now if it is imported already."""
    if name in sys.modules:
        callback(sys.modules[name])
        return
    _install()
    _finder.wanted.setdefault(name, []).append(callback)


def before_import(name: str, callback: "Callable[[], object]") -> None:
    """Call `callback()` once, when the program looks for module `name`, which it has not imported yet."""
    _install()
    _finder.before[name] = callback


def _install() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
