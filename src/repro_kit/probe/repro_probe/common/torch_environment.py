"""Describe torch's environment: ``python -m repro_probe.common.torch_environment`` answers questions about it."""

from __future__ import annotations

import gc
import importlib
import json
import os
import platform
import sys
from typing import Any

from repro_probe.protocol.findings import Settings
from repro_probe.protocol.orders import EnvironmentData, NamesData
from repro_probe.protocol.recipe_data import CONFIG_MODULES


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


#: Set by repro-kit or by torch for one run only.
_NOT_THE_USERS = {"inductor.compile_threads", "inductor.worker_start_method", "dynamo.debug_dir_root"}


def non_default_config() -> dict[str, Any]:
    """Return the settings of the loaded config modules that differ from their defaults: {"inductor.cpp.simdlen": 8}."""
    changed = {}
    for short, name in CONFIG_MODULES.items():
        module = sys.modules.get(name)
        entries = getattr(module, "_config", None)
        if not entries:
            continue
        for key, entry in list(entries.items()):
            full = short + "." + key
            if full in _NOT_THE_USERS or getattr(entry, "alias", None) or getattr(entry, "deprecated", False):
                continue
            try:
                value = value_of(module, key)
                default = default_of(module, key)
            except (AttributeError, KeyError):
                continue
            if value != default and _is_literal(value):
                changed[full] = value
    return changed


def default_of(module: Any, key: str) -> Any:
    """Return the default of the setting `key`. Raises KeyError or AttributeError where the module has none.

    An older torch keeps the values in `_config` and the defaults in `_default` (torch/utils/_config_module.py).
    """
    defaults = getattr(module, "_default", None)
    return module._config[key].default if defaults is None else defaults[key]


def value_of(module: Any, key: str) -> Any:
    """Return the present value of the setting `key`, such as ``cpp.simdlen``."""
    for part in key.split("."):
        module = getattr(module, part)
    return module


def _is_literal(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_literal(item) for item in value)
    if isinstance(value, dict):
        return all(_is_literal(key) and _is_literal(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def settings() -> Settings:
    """Return the settings of this process that a program must have too."""
    torch = sys.modules["torch"]
    return {
        "config": non_default_config(),
        "threads": torch.get_num_threads(),
        "memory": memory_limit(),
        "default_dtype": str(torch.get_default_dtype()),
    }


def memory_limit() -> int | None:
    """Return the bytes of address space that this process may map; None where there is no limit."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def accelerator(torch: Any) -> str | None:
    """Return the type of the accelerator that can be used, or None."""
    if torch.cuda.is_available():
        return "cuda"
    for name in ("xpu", "mps"):
        module = getattr(torch, name, None)
        if module is not None and module.is_available():
            return name
    return None


def _collect_env() -> str:
    """Return the text of torch.utils.collect_env; where that fails, why it fails."""
    from torch.utils import collect_env

    try:
        return str(collect_env.get_pretty_env_info())
    except AttributeError:  # an older torch fails where there is no pip to ask; a newer one says that there is none
        collect_env.get_pip_packages = lambda *_: ("pip3", None)
    try:
        return str(collect_env.get_pretty_env_info())
    except Exception as error:
        return f"torch.utils.collect_env fails with this interpreter: {type(error).__name__}: {error}"


def packages() -> dict[str, str]:
    """Return the installed distributions and their versions."""
    from importlib import metadata

    versions = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            versions[name] = distribution.version
    return dict(sorted(versions.items(), key=lambda item: item[0].lower()))


def _environment() -> EnvironmentData:
    report: EnvironmentData = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "torch": None,
        "packages": packages(),
    }
    gc.disable()  # an import makes many objects and hardly any garbage, and this process ends soon
    try:
        import torch
    except ImportError as error:
        report["error"] = str(error)
    else:
        gc.freeze()  # else the end of the process looks at all that was imported
        report["torch"] = str(torch.__version__)
        report["torch_git"] = torch.version.git_version
        report["accelerator"] = accelerator(torch)
        report["threads"] = torch.get_num_threads()
        report["collect_env"] = _collect_env()
    return report


def main() -> None:
    """Print the environment, or those of the names in the input that this torch does not know, as JSON."""
    asked: NamesData | None = json.load(sys.stdin)
    answer = _environment() if asked is None else unknown_names(asked)
    sys.stdout.flush()
    os.write(1, ("\n" + json.dumps(answer)).encode())


if __name__ == "__main__":
    main()
