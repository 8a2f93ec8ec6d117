"""Typed dataclasses to JSON and back: orjson for the bytes, cattrs for the types."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import orjson
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


def from_data(data: Any, cls: type[T]) -> T:
    """`data` as an instance of `cls`; raises cattrs' error when it does not fit."""
    return _converter.structure(data, cls)


def dumps(value: Any) -> bytes:
    """JSON with two-space indent and a final newline."""
    return orjson.dumps(to_data(value), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
