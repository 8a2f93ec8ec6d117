"""Look up names of backends and settings."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from repro_probe.protocol.config_modules import CONFIG_MODULES
from repro_probe.protocol.programs import NamesData


def backend(name: str) -> Any:
    """Return the backend to pass to `torch.compile` for `name`.

    ``MODULE:FUNCTION`` is imported. A name that is not registered may be a function of the user's script.
    """
    module, colon, attribute = name.partition(":")
    if colon:
        return getattr(importlib.import_module(module), attribute)
    function = getattr(sys.modules.get("__main__"), name, None)
    return function if callable(function) and not is_registered(name) else name


def is_registered(name: str) -> bool:
    """Whether torch has a backend of this name."""
    registered = importlib.import_module("torch._dynamo").list_backends(())
    return name in registered


def is_setting(name: str) -> bool:
    """Whether ``<module>.<name>`` is a setting of torch."""
    short, _, rest = name.partition(".")
    try:
        module = importlib.import_module(CONFIG_MODULES[short])
    except ImportError:
        return False
    entries = getattr(module, "_config", None)
    return rest in entries if entries is not None else hasattr(module, rest)


def _is_backend(name: str) -> bool:
    if ":" not in name:
        return is_registered(name)
    try:
        return callable(backend(name))
    except (ImportError, AttributeError):
        return False


def unknown_names(asked: NamesData) -> NamesData:
    """Return those of the names that this torch does not know."""
    return {
        "backends": [name for name in asked["backends"] if not _is_backend(name)],
        "settings": [name for name in asked["settings"] if not is_setting(name)],
    }
