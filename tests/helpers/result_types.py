"""Every class that is written to a case or a bundle, found in the code that reads it, and values of it."""

import ast
import dataclasses
import importlib
import importlib.util
import math
import pkgutil
import types
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import repro_kit
from repro_kit.bundle.archive.manifest import SCHEMAS
from root import OF_EXTRAS

#: Calls that read a class from a file: their name, and which argument is the class.
_READERS = {"from_data": 1, "read": 1, "ResultFile": 2}


def result_types() -> dict[str, type]:
    """The classes by their name with the module's."""
    found = {cls for _, cls in SCHEMAS.values()}
    for module in pkgutil.walk_packages(repro_kit.__path__, "repro_kit."):
        own = ".probe" not in module.name and not module.name.endswith("__main__")
        if own and module.name not in OF_EXTRAS:
            found.update(_read_in(module.name))
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in sorted(found, key=lambda cls: cls.__qualname__)}


def _read_in(name: str) -> Iterator[type]:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    if not any(reader in text for reader in _READERS):
        return
    module = importlib.import_module(name)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            reader = getattr(node.func, "attr", getattr(node.func, "id", ""))
            at = _READERS.get(reader)
            if at is not None and len(node.args) > at:
                yield from _classes(node.args[at], module)


def _classes(node: ast.expr, module: types.ModuleType) -> Iterator[type]:
    """The dataclasses that the expression names, which may be a variable or ``tuple[Frame, ...]``."""
    for part in ast.walk(node):
        named = getattr(module, part.id, None) if isinstance(part, ast.Name) else None
        if isinstance(named, type) and dataclasses.is_dataclass(named):
            yield named


_TEXTS = ("", "a", "inf", "\ufdd0", "\ud800", "\udcff\ufdd0dc80", "$float", "\0\n\r\u2028", "\U0001f600é")
_INTEGERS = (0, 1, -1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**300, -(10**4000))
_FLOATS = (0.0, 1.5, -1e-320, 1e308, math.inf, -math.inf, math.nan)  # not -0.0, which equals a default and is left out
_NAMES = (*_TEXTS, "$int", "$dict")
_DEEP = 5  # from here on, what may be left out or empty is


class Chance:
    """Draws values of annotated types; whole results are larger than hypothesis itself would draw."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def value(self, hint: Any, depth: int = 0) -> Any:
        """A value of the type that an annotation names."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in (Any, object):
            return self._anything(depth)
        if hint in _PLAIN:
            return self._random.choice(_PLAIN[hint])
        if origin is Literal:
            return self._random.choice(arguments)
        if origin in (Union, types.UnionType):
            return self.value(type(None) if depth > _DEEP else self._random.choice(arguments), depth)
        if origin is tuple and arguments[-1] is not ...:
            return tuple(self.value(argument, depth + 1) for argument in arguments)
        if origin in (tuple, list):
            return origin(self.value(arguments[0], depth + 1) for _ in range(self._count(depth)))
        if origin in (dict, Mapping):
            keys = [self.value(arguments[0]) for _ in range(self._count(depth))]
            return {key: self.value(arguments[1], depth + 1) for key in keys}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self._random.choice(list(hint))
        if dataclasses.is_dataclass(hint):
            return hint(**self._fields(hint, depth))
        raise TypeError(f"no values are known of {hint!r}")

    def _fields(self, cls: Any, depth: int) -> dict[str, Any]:
        hints = get_type_hints(cls)
        needed = [field for field in dataclasses.fields(cls) if field.init and (depth <= _DEEP or _is_needed(field))]
        return {it.name: self.value(hints[it.name], depth + 1) for it in needed}

    def _anything(self, depth: int) -> Any:
        match self._random.randrange(7 if depth <= _DEEP else 5):
            case 5:
                return [self._anything(depth + 2) for _ in range(self._count(depth))]
            case 6:
                return {self._random.choice(_NAMES): self._anything(depth + 2) for _ in range(self._count(depth))}
            case kind:
                return self._random.choice(list(_PLAIN.values())[kind])

    def _count(self, depth: int) -> int:
        return self._random.randrange(3) if depth <= _DEEP else 0


_PLAIN: dict[Any, Sequence[Any]] = {
    str: _TEXTS,
    int: _INTEGERS,
    float: _FLOATS,
    bool: (False, True),
    type(None): (None,),
}


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
