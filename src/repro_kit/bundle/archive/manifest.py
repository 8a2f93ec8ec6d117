"""`manifest.json` and `redactions.json`, as typed data; and the files of a bundle that have a JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from repro_kit.bundle.archive.schemas import schema_of
from repro_kit.bundle.story.story import ELSEWHERE, STORY, Story
from repro_kit.case.stage_results import Environment
from repro_kit.diagnosis.cell import Ablation
from repro_kit.failure.failure import Layer
from repro_kit.failure.signature import Signature
from repro_kit.recipe import Recipe

SCHEMA = 1
MANIFEST = "manifest.json"
REDACTIONS = "redactions.json"


@dataclass(frozen=True)
class Tool:
    """What wrote the bundle."""

    name: str
    version: str


@dataclass(frozen=True)
class Runs:
    """Runs of `repro.py`, and how many of them failed with the signature."""

    made: int
    same: int


@dataclass(frozen=True)
class FileListed:
    """One file of the bundle."""

    path: str
    sha256: str
    size: int  # bytes
    role: str
    redactions: int  # places replaced
    truncated: int  # bytes cut out of the middle


@dataclass(frozen=True)
class Manifest:
    """The files of a bundle (except the manifest and the checksums), and the main facts of the failure."""

    schema: Literal[1]
    tool: Tool
    created: str  # when the case was created, ISO 8601
    level: Literal["program", "script"]
    verified: bool
    reason: str  # why it is not verified, or not minimized
    runs: Runs
    layer: Layer | None
    torch: str | None
    python: str
    platform: str
    accelerator: str | None
    limit: float  # seconds that a run of `repro.py` may take
    values: bool  # tensor values are in it
    signature: Signature
    files: tuple[FileListed, ...]
    flaky: str = ""  # how often it fails, in words; empty: in every run
    repeats: int = 1  # runs of `repro.py` that must all pass before the failure counts as gone
    needs: tuple[str, ...] = ()  # parts of the original machine that the failure needs


@dataclass(frozen=True)
class Replaced:
    """One token, what it stands for, and where it occurs; never the original."""

    token: str
    what: str
    places: int
    files: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """A group of private values that stay as they are: their kind, the reason, and their number; never the values."""

    what: str  # "environment variable"
    reason: str  # "a word of torch"
    values: int


@dataclass(frozen=True)
class Redactions:
    """What was replaced in a bundle, and which private values were not."""

    replaced: tuple[Replaced, ...]
    schema: int = SCHEMA
    kept: tuple[Kept, ...] = ()


PLACE = Path(__file__).parents[2] / "schemas"

#: name of the schema: (file of the bundle, what it holds)
SCHEMAS: dict[str, tuple[str, type]] = {
    "manifest": ("manifest.json", Manifest),
    "environment": ("env.json", Environment),
    "ablation": ("ablation.json", Ablation),
    "recipe": ("recipe.toml", Recipe),
    "story": (STORY, Story),
    "redactions": ("redactions.json", Redactions),
}


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its name, from the current classes."""
    made = {
        name: schema_of(cls, name=f"bundle-1:{name}", title=f"{file} of a repro-kit bundle")
        for name, (file, cls) in SCHEMAS.items()
    }
    story = made["story"]
    story["properties"] = {name: property_ for name, property_ in story["properties"].items() if name not in ELSEWHERE}
    story["required"] = [name for name in story["required"] if name not in ELSEWHERE]
    return made


def write() -> None:
    """Write the schemas to `PLACE`: ``python -m repro_kit.bundle.archive.manifest``."""
    PLACE.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        data = orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        (PLACE / f"{name}.schema.json").write_bytes(data)


if __name__ == "__main__":
    write()
