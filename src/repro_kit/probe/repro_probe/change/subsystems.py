"""Find the subsystems and settings of this torch, record the applications of a subsystem, and switch some off."""

from __future__ import annotations

import collections
import importlib
import json
import os
import typing
from typing import Any

from repro_probe.common.torch_environment import value_of
from repro_probe.protocol.findings import APPLIED
from repro_probe.protocol.orders import Switch
from repro_probe.protocol.queries import Application, Capabilities, SettingData, Subsystem
from repro_probe.protocol.recipe_data import CONFIG_MODULES

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


def switch_off(switch: Switch, path: str) -> None:
    """Make CompilerBisector switch off the applications in `switch`, and write each application to the file `path`.

    A switch is ``{}``, which only records, or has ``backend``, ``subsystem`` and one of ``last``, ``without`` and
    ``only``. With ``last``, applications after this number are off, as with TORCH_BISECT_MAX. ``without`` and
    ``only`` are lists of numbers. Applications count from 0.
    """
    from torch._inductor import compiler_bisector

    bisector = compiler_bisector.CompilerBisector
    bisector.bisection_enabled = True  # makes torch bypass the graph cache, as its own bisection does
    wanted = (switch.get("backend"), switch.get("subsystem"))
    numbers: collections.Counter[tuple[str, str]] = collections.Counter()
    file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open until the process ends

    def disable_subsystem(backend: str, subsystem: str, debug_info: Any = None) -> bool:
        if wanted not in ((None, None), (backend, subsystem)):
            return False
        number = numbers[backend, subsystem]
        numbers[backend, subsystem] += 1
        # The line is flushed now, since the process may crash in the next step.
        file.write(json.dumps([backend, subsystem, *_described(debug_info)]) + "\n")
        file.flush()
        return _is_off(switch, number)

    bisector.disable_subsystem = staticmethod(disable_subsystem)


def read_applications(directory: str) -> list[Application] | None:
    """Return the applications that were recorded in `directory`."""
    try:
        with open(os.path.join(directory, APPLIED), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return None


def _is_off(switch: Switch, number: int) -> bool:
    if "last" in switch:
        return number > switch["last"]
    if "only" in switch:
        return number not in switch["only"]
    return number in switch.get("without", ())


def _described(debug_info: Any) -> tuple[str, str]:
    """Return (name, user's line) of an application. The name is an operator where there is one, else torch's text."""
    if debug_info is None:
        return "", ""
    for cell in debug_info.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # empty
            continue
        if type(value).__name__ == "Node":
            return str(value.target), _last_line(value.meta.get("stack_trace"))
        if type(value).__name__ == "OpOverload":
            return str(value), ""
    return str(debug_info()), ""


def _last_line(stack: str | None) -> str:
    """Return the innermost frame of `stack`, FX's text for a node, as ``model.py:12: y = x.relu()``."""
    lines = [line.strip() for line in (stack or "").splitlines() if line.strip()]
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].startswith("File "):
            file, _, rest = lines[at][len("File ") :].partition(", line ")
            number = rest.partition(",")[0]
            code = lines[at + 1] if at + 1 < len(lines) else ""
            return "{}:{}: {}".format(os.path.basename(file.strip('"')), number, code)
    return ""
