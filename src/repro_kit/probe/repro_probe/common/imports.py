"""Run a callback right after a module was imported, without importing it."""

import importlib.abc
import sys


class _Loader(importlib.abc.Loader):
    """Delegates to the real loader, then calls back."""

    def __init__(self, loader, callbacks):
        self._loader = loader
        self._callbacks = callbacks

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # The module must look as if it had been loaded without us.
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for callback in self._callbacks:
            callback(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.wanted = {}

    def find_spec(self, name, path=None, target=None):
        callbacks = self.wanted.pop(name, None)
        if callbacks is None:
            return None
        spec = _find(name, path)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, callbacks)
        return spec


def _find(name, path):
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None


_finder = _Finder()


def when_imported(name, callback):
    """Call `callback(module)` once, after module `name` has been executed; at once if it already was."""
    if name in sys.modules:
        callback(sys.modules[name])
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.wanted.setdefault(name, []).append(callback)
