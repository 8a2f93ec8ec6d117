"""Find what this torch can switch off, and its modes, by inspecting torch instead of its version number."""

from __future__ import annotations

import importlib
import json
import typing
from typing import Any

from repro_probe.common.torch_environment import value_of
from repro_probe.protocol.config_modules import CONFIG_MODULES
from repro_probe.protocol.queries import Capabilities, SettingData, Subsystem

#: Values that switch a feature off: fusion, vectors, threads, inlining.
_NUMBERS = {
    "inductor.max_fusion_size": 1,
    "inductor.cpp.simdlen": 1,
    "inductor.cpp.threads": 1,
    "inductor.realize_opcount_threshold": 1,
    "inductor.realize_reads_threshold": 1,
}

#: Config modules whose settings are tried. No setting of `compiler` and `shapes` would be a useful workaround.
_FLIPPED = ("inductor", "dynamo", "functorch")


def find_capabilities() -> Capabilities:
    """Return the subsystems by backend, whether each graph can get its own backend, the modes, and other settings."""
    return {
        "subsystems": _subsystems(),
        "graphs": _has_graph_overrides(),
        "settings": _settings(),
        "modes": _modes(),
    }


def _modes() -> dict[str, dict[str, Any]]:
    """Return the options of each mode of `torch.compile`; empty where this torch cannot list its modes."""
    try:
        from torch._inductor import list_mode_options
    except ImportError:
        return {}
    modes: dict[str, dict[str, Any]] = json.loads(json.dumps(list_mode_options(), default=repr))
    return modes


def _subsystems() -> dict[str, list[Subsystem]]:
    """Return the subsystems that can be switched off, such as {"inductor": [{"name": "lowerings"}]}."""
    try:
        from torch._inductor.compiler_bisector import BACKENDS, CompilerBisector
    except ImportError:
        return {}
    if not hasattr(CompilerBisector, "disable_subsystem"):
        return {}
    return {
        backend: [_subsystem(backend, subsystem) for subsystem in subsystems]
        for backend, subsystems in BACKENDS.items()
    }


def _subsystem(backend: str, subsystem: Any) -> Subsystem:
    field = getattr(subsystem, "config_field", None)
    if field is None:
        return {"name": subsystem.name}
    # aot_eager_decomp_partition patches functorch's settings (torch/_dynamo/backends/debugging.py).
    module = "inductor" if backend == "inductor" else "functorch"
    return {"name": subsystem.name, "setting": module + "." + field, "value": subsystem.config_value}


def _has_graph_overrides() -> bool:
    from torch._dynamo import config

    return hasattr(config, "debug_backend_override")


def _settings() -> list[SettingData]:
    """Return the settings with few values: {"name": "inductor.pattern_matcher", "value": True, "others": [False]}."""
    settings: list[SettingData] = []
    for short in _FLIPPED:
        module = importlib.import_module(CONFIG_MODULES[short])
        for key, entry in list(getattr(module, "_config", {}).items()):
            if getattr(entry, "alias", None) or getattr(entry, "deprecated", False):
                continue
            try:
                value = value_of(module, key)
            except AttributeError:
                continue
            name = short + "." + key
            values = [_NUMBERS[name]] if name in _NUMBERS else _values(getattr(entry, "value_type", None), value)
            others = [candidate for candidate in values if candidate != value]
            if others:
                settings.append({"name": name, "value": value, "others": others})
    return settings


def _values(kind: Any, value: Any) -> list[Any]:
    """Return all values of a setting's type; none when there are many."""
    if kind is bool or isinstance(value, bool):
        return [True, False]
    if typing.get_origin(kind) is typing.Literal:
        return list(typing.get_args(kind))
    parts = typing.get_args(kind)
    if parts and type(None) in parts:  # Optional
        part_values = [_values(part, None) for part in parts if part is not type(None)]
        return [None, *part_values[0]] if len(part_values) == 1 and part_values[0] else []
    return []
