"""Typed dataclasses to JSON and back: orjson for the bytes, cattrs for the types."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import orjson
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_unstructure_fn
from cattrs.preconf.orjson import make_converter

T = TypeVar("T")

_converter = make_converter()


def _lean(cls: type) -> Any:
    """Leave out fields that stand at their default: files stay readable."""
    return make_dict_unstructure_fn(cls, _converter, _cattrs_omit_if_default=True)


# A field of type `object` holds whatever JSON can hold (values of torch's settings).
_converter.register_structure_hook_func(lambda cls: cls is object, lambda value, _: value)
_converter.register_unstructure_hook_factory(dataclasses.is_dataclass, _lean)


def to_data(value: Any) -> Any:
    """`value` (dataclasses, enums, containers) as plain dicts, lists and scalars."""
    return _converter.unstructure(value)


class DamagedError(ValueError):
    """Data that is no instance of what it should be."""


def from_data(data: Any, cls: type[T]) -> T:
    """`data` as an instance of `cls`; raises DamagedError when it does not fit, whatever `data` is."""
    if dataclasses.is_dataclass(cls) and not isinstance(data, dict):  # cattrs takes a list for an empty dict
        raise DamagedError(f"not the data of a {cls.__name__}")
    try:
        return _converter.structure(data, cls)
    except (BaseValidationError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise DamagedError(f"not the data of a {getattr(cls, '__name__', cls)}") from error


def dumps(value: Any) -> bytes:
    """JSON with two-space indent and a final newline."""
    return encoded(to_data(value), orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def encoded(data: Any, option: int = 0) -> bytes:
    """Plain `data` as JSON; text that is not valid Unicode (a file's name, a variable) has ``?`` for what is not."""
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
