"""Settings of torch: from their short names (``inductor.cpp.simdlen``) to Python, and back."""

from __future__ import annotations

from repro_kit.probe.repro_probe.protocol.config_modules import CONFIG_MODULES


def module_of(setting: str) -> str:
    """``torch._inductor.config``: the module that has the setting."""
    short = setting.partition(".")[0]
    return CONFIG_MODULES.get(short, f"torch._{short}.config")


def qualified(setting: str) -> str:
    """``torch._inductor.config.cpp.simdlen``."""
    return f"{module_of(setting)}.{setting.partition('.')[2]}"


def assigned(setting: str, value: object) -> str:
    """``torch._inductor.config.cpp.simdlen = 8``."""
    return f"{qualified(setting)} = {value!r}"


def short_name(expression: str) -> str | None:
    """``inductor.cpp.simdlen`` for ``torch._inductor.config.cpp.simdlen``; None for anything but a setting."""
    for short, module in CONFIG_MODULES.items():
        if expression.startswith(f"{module}."):
            return f"{short}.{expression.removeprefix(f'{module}.')}"
    return None
