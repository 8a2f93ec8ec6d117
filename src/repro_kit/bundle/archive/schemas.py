"""The files of a bundle that have a JSON Schema; the schemas lie in `repro_kit/schemas`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from repro_kit.bundle.archive.manifest import Manifest, Redactions
from repro_kit.bundle.story.story import ELSEWHERE, STORY, Story
from repro_kit.case.stage_results import Environment
from repro_kit.model.ablation.cell import Ablation
from repro_kit.model.json_schema import schema_of
from repro_kit.model.recipe import Recipe

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
    """Write the schemas to `PLACE`: ``python -m repro_kit.bundle.archive.schemas``."""
    PLACE.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        data = orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        (PLACE / f"{name}.schema.json").write_bytes(data)


if __name__ == "__main__":
    write()
