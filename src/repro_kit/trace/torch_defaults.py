"""Which of the settings that a trace shows are not at their default.

A trace holds every setting of Dynamo, Inductor and AOTAutograd, not their defaults. Those are in `defaults.json`, as
``scripts/record_defaults.py`` wrote them down of one release of torch; what differs between machines is left out.
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
    """A setting that was changed: ``torch._dynamo.config.recompile_limit``, and both values as torch prints them."""

    name: str
    value: str
    default: str


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = orjson.loads(Path(__file__).with_name("defaults.json").read_bytes())
    return data


def baseline() -> str:
    """The release of torch whose defaults are known."""
    return str(_defaults()["torch"]["version"])


def unusual(home: str, values: Mapping[str, Any]) -> Iterator[Setting]:
    """The settings of module `home` that are not at their default; one that this release does not know is none."""
    known = _defaults().get(home, {})
    for name, value in values.items():
        if name in known and known[name] != value:
            yield Setting(f"{home}.{name}", repr(value), repr(known[name]))
