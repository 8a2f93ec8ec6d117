"""Find the settings in a trace that are not at their default.

A trace holds every setting of Dynamo, Inductor and AOTAutograd, but not the defaults. Those are in `defaults.json`,
which ``scripts/record_defaults.py`` recorded from one release of torch, without machine-dependent settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson


@dataclass(frozen=True)
class Setting:
    """A changed setting: ``torch._dynamo.config.recompile_limit``, and both values as torch prints them."""

    name: str
    value: str
    default: str


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = orjson.loads(Path(__file__).with_name("defaults.json").read_bytes())
    return data


def baseline() -> str:
    """The release of torch whose defaults were recorded."""
    return str(_defaults()["torch"]["version"])


def unusual(home: str, values: Mapping[str, Any]) -> Iterator[Setting]:
    """The settings of module `home` that are not at their default; unknown settings are left out."""
    defaults = _defaults().get(home, {})
    for name, value in values.items():
        if name in defaults and defaults[name] != value:
            yield Setting(f"{home}.{name}", repr(value), repr(defaults[name]))
