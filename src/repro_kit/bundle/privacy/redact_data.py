"""Redact structured data value by value, so that the serialized result is well-formed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from repro_kit.bundle.privacy.redact import Redacted, Redactor
from repro_kit.model.variables import is_secret

T = TypeVar("T")
Redact = Callable[[str], str]

_SHORTEST_NUMBER = 6  # characters
_INDENTED = 2  # JSON of at least so many lines is written with indents


def redact_typed(value: T, redact: Redact) -> T:
    """`value` (dataclasses, enums, containers, scalars) redacted, except words of a fixed vocabulary."""
    redacted: Any = _typed(value, redact)
    return redacted  # type: ignore[no-any-return]


def _typed(value: Any, redact: Redact) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{name: _typed(getattr(value, name), redact) for name in _open_fields(type(value))})
    return value if isinstance(value, Enum) else _walked(value, redact, _typed)


@cache
def _open_fields(cls: type[Any]) -> tuple[str, ...]:
    """The fields of dataclass `cls` that hold more than words of a fixed vocabulary."""
    hints = get_type_hints(cls)
    return tuple(field.name for field in fields(cls) if not _is_fixed(hints[field.name]))


def _is_fixed(hint: Any) -> bool:
    """Whether a field of this type holds only words of a fixed vocabulary."""
    if get_origin(hint) is Literal:
        return True
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    if arguments:
        return all(map(_is_fixed, arguments))
    return isinstance(hint, type) and issubclass(hint, Enum)


def redact_plain(value: Any, redact: Redact) -> Any:
    """A JSON `value` with every string redacted, including keys, and numbers that are secrets."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = repr(value)
        shown = redact(written) if len(written) >= _SHORTEST_NUMBER else written
        return value if shown == written else shown
    return _walked(value, redact, redact_plain)


def _walked(value: Any, redact: Redact, walk: Callable[[Any, Redact], Any]) -> Any:
    match value:
        case str():
            return redact(value)
        case dict():
            return {(redact(key) if isinstance(key, str) else key): walk(item, redact) for key, item in value.items()}
        case list():
            return [walk(item, redact) for item in value]
        case tuple() | set() | frozenset():
            return type(value)(walk(item, redact) for item in value)
    return value


def texts_in(value: Any) -> Iterator[str]:
    """The texts in a JSON `value` to learn from: keys, strings, and pairs whose key is a word for secrets.

    An option in a list of arguments and the item after it are such a pair, too.
    """
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield str(key)
                yield from _beside_its_word(str(key), item)
                yield from texts_in(item)
        case list() | tuple():
            for option, item in pairwise(["", *value]):
                if isinstance(option, str) and option.startswith("-") and not str(item).startswith("-"):
                    yield from _beside_its_word(option.lstrip("-").replace("-", "_"), item)
                yield from texts_in(item)


def _beside_its_word(key: str, item: Any) -> Iterator[str]:
    if isinstance(item, str | int) and is_secret(key):
        yield f'{key}: "{item}"' if '"' not in str(item) else f"{key}: {item}"


def parsed(text: str) -> Any:
    """The object or array in JSON `text`; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def json_redacted(text: str, redactor: Redactor) -> Redacted | None:
    """JSON `text` redacted by value; None if `text` is not JSON."""
    data = parsed(text)
    if data is None:
        return None
    tokens: Counter[str] = Counter()

    def redact(value: str) -> str:
        redacted = redactor.redact(value)
        tokens.update(redacted.tokens)
        return redacted.text

    shown = redact_plain(data, redact)
    if shown == data:
        return Redacted(text, tokens)
    indent = 2 if text.count("\n") >= _INDENTED else None
    ends = text[len(text.rstrip()) :]
    return Redacted(json.dumps(shown, indent=indent, ensure_ascii=False) + ends, tokens)
