"""JSON Schemas of the files of a bundle, made from their dataclasses."""

from __future__ import annotations

import dataclasses
import types
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

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
