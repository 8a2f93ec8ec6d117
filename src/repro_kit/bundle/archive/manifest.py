"""`manifest.json` and `redactions.json` as typed data, and the JSON Schemas of the files of a bundle."""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson

from repro_kit.bundle.story.story import ELSEWHERE, STORY, Story
from repro_kit.case.stage_results import Environment
from repro_kit.diagnosis.cell import Ablation
from repro_kit.failure.failure import Layer
from repro_kit.failure.signature import Signature
from repro_kit.recipe import Recipe

_PLAIN = {str: "string", bool: "boolean", type(None): "null"}
#: Values of these types that JSON cannot hold are written as an object with one key (serialize.py).
_NUMBERS: dict[Any, tuple[str, str, dict[str, Any]]] = {
    int: ("integer", "$int", {"type": "string", "pattern": "^-?0x[0-9a-f]+$"}),
    float: ("number", "$float", {"enum": ["inf", "-inf", "nan"]}),
}


def schema_of(cls: type, *, name: str, title: str) -> dict[str, Any]:
    """The schema (JSON Schema draft 2020-12) of a file that holds one `cls`. Fields with a default are optional."""
    definitions: dict[str, Any] = {}
    _define(cls, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:repro-kit:{name}",
        "title": title,
        **definitions.pop(cls.__name__),
        **({"$defs": dict(sorted(definitions.items()))} if definitions else {}),
    }


def _define(cls: type, definitions: dict[str, Any]) -> None:
    if cls.__name__ in definitions:
        return
    definitions[cls.__name__] = {}  # entered first, because the class may contain itself
    hints = get_type_hints(cls)
    fields = dataclasses.fields(cls)
    needed = [
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    definitions[cls.__name__] = {
        "type": "object",
        "description": (cls.__doc__ or "").strip().partition("\n")[0],
        "properties": {field.name: _of(hints[field.name], definitions) for field in fields},
        "required": needed,
        "additionalProperties": False,
    }


def _of(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint in _NUMBERS:
        return _number(*_NUMBERS[hint], definitions)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(argument, definitions) for argument in arguments]}
    if origin in (tuple, list):
        return _sequence(arguments, definitions)
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        _define(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {}  # any JSON value


def _number(kind: str, mark: str, text: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    beyond = {"type": "object", "properties": {mark: text}, "required": [mark], "additionalProperties": False}
    definitions[kind] = {"anyOf": [{"type": kind}, beyond]}
    return {"$ref": f"#/$defs/{kind}"}


def _sequence(arguments: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if len(arguments) == 1 or arguments[-1] is ...:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    items = [_of(argument, definitions) for argument in arguments]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


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
