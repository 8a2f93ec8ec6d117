"""Typed dataclasses to JSON and back: orjson for the bytes, cattrs for the types.

JSON has no infinity, no NaN, no lone surrogate (an undecodable byte of a file name), and no integer beyond 64 bits that
every reader keeps. `to_data` writes these as ``{"$float": "inf"}``, ``{"$int": "0x…"}`` and escaped text; `from_data`
reads them back.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any, TypeVar

import orjson
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_unstructure_fn
from cattrs.preconf.orjson import make_converter

T = TypeVar("T")

_FLOAT, _INT, _DICT = "$float", "$int", "$dict"
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1  # integer that TOML and orjson hold
#: This noncharacter, which no text should hold, marks an escape; four hexadecimal digits of the character follow.
_ESCAPE = "\ufdd0"
_UNWRITABLE = re.compile(f"[\ud800-\udfff{_ESCAPE}]")
_ESCAPED = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")

_converter = make_converter()


def _lean(cls: type) -> Any:
    """Leave out fields that have their default value, so that files stay readable."""
    return make_dict_unstructure_fn(cls, _converter, _cattrs_omit_if_default=True)


def _upgrading(cls: Any) -> Any:
    read = _converter.gen_structure_attrs_fromdict(cls)
    return lambda data, of: read(cls.upgraded(data), of)


# A field of type `object` holds any JSON value (values of torch's settings).
_converter.register_structure_hook_func(lambda cls: cls is object, lambda value, _: value)
_converter.register_unstructure_hook_factory(dataclasses.is_dataclass, _lean)
# A class with a method `upgraded` reads what earlier versions wrote through it.
_converter.register_structure_hook_factory(
    lambda cls: dataclasses.is_dataclass(cls) and hasattr(cls, "upgraded"), _upgrading
)


def plain(value: Any) -> Any:
    """`value` (dataclasses, enums, containers) as plain dicts, lists and scalars, for use in Python."""
    return _converter.unstructure(value)


class DamagedError(ValueError):
    """Data does not fit the class that it is read as."""


def to_data(value: Any) -> Any:
    """`value` as plain data that JSON and TOML can hold (see the module docstring)."""
    return _encoded(plain(value))


def from_data(data: Any, cls: type[T]) -> T:
    """`data` as an instance of `cls`. Raises DamagedError when `data` does not fit, whatever it holds."""
    if dataclasses.is_dataclass(cls) and not isinstance(data, dict):  # cattrs takes a list for an empty dict
        raise DamagedError(f"not the data of a {cls.__name__}")
    try:
        return _converter.structure(_decoded(data) if _is_marked(data) else data, cls)
    except (
        BaseValidationError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise DamagedError(f"not the data of a {getattr(cls, '__name__', cls)}") from error


def dumps(value: Any) -> bytes:
    """JSON with two-space indent and a final newline."""
    return encoded(to_data(value), orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def encoded(data: Any, option: int = 0) -> bytes:
    """Plain `data` as JSON. In text that is not valid Unicode (a file name), ``?`` replaces each invalid character."""
    try:
        return orjson.dumps(data, option=option)
    except orjson.JSONEncodeError:
        return orjson.dumps(_valid(data), option=option)


def _valid(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "replace").decode()
    if isinstance(data, dict):
        return {_valid(name): _valid(value) for name, value in data.items()}
    return [_valid(value) for value in data] if isinstance(data, list | tuple) else data


def loads(data: bytes | str) -> Any:
    """Data that the probe wrote with the standard library's json: NaN, infinities, surrogates, integers of any size.

    Raises ValueError for text that is not such JSON.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _encoded(data: Any) -> Any:
    match data:
        case str():
            return _UNWRITABLE.sub(lambda match: f"{_ESCAPE}{ord(match[0]):04x}", data)
        case float() if not math.isfinite(data):
            return {_FLOAT: repr(data)}
        case int() if not isinstance(data, bool) and not _SMALLEST <= data <= _LARGEST:
            return {_INT: hex(data)}
        case dict():
            encoded = {_encoded(name): _encoded(value) for name, value in data.items()}
            return {_DICT: encoded} if _tag(encoded) else encoded
        case list() | tuple():
            return type(data)(_encoded(value) for value in data)
    return data


def _is_marked(data: Any) -> bool:
    """Whether `data` holds an escaped value. Most data does not, and is read without a copy."""
    match data:
        case str():
            return _ESCAPE in data
        case dict():
            return bool(_tag(data)) or any(_is_marked(name) or _is_marked(value) for name, value in data.items())
        case list() | tuple():
            return any(map(_is_marked, data))
    return False


def _decoded(data: Any) -> Any:
    match data:
        case str():
            return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), data)
        case dict():
            match _tag(data):
                case "$float":
                    return float(data[_FLOAT])
                case "$int":
                    return int(data[_INT], 16)
                case "$dict":
                    data = data[_DICT]
            return {_decoded(name): _decoded(value) for name, value in data.items()}
        case list() | tuple():
            return [_decoded(value) for value in data]
    return data


def _tag(data: dict[Any, Any]) -> str:
    """The tag of a dict that represents a value that JSON cannot hold; "" for a plain dict."""
    name = next(iter(data)) if len(data) == 1 else ""
    return name if name in (_FLOAT, _INT, _DICT) else ""
