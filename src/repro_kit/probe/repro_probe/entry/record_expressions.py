"""Record what the expressions of an instrumented script return, as Python text, and which calls read data.

`repro_kit.script.recording` writes the calls of the three functions here into the script.
"""

from __future__ import annotations

import argparse
import builtins
import dataclasses
import json
import math
import os
import site
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

BEGUN, CALLED, VALUE, ITEMS = "__begun__", "__called__", "__value__", "__items__"
_EVENTS = ("open", "os.listdir", "os.scandir", "socket.connect", "sqlite3.connect")
_MOST_READ = 1 << 16  # bytes of a file, and characters of a text
_MOST_PARTS = 400  # of a container
_MOST_SEEN = 64  # values of an expression that are compared
_SMALL = 16  # elements of a tensor that are written out
_OF_COMPILED_CALLS = "torch/_dynamo/eval_frame.py"  # the wrapper that torch.compile puts around a function
_CODE = (".py", ".pyc", ".so", ".pyd", ".dll", ".json.lock")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class ExpressionRecorder:
    """Holds, by the number of an expression, its value as text; None where it has several values, or no such text."""

    def __init__(self) -> None:
        self._values: dict[int, str | None] = {}
        self._items: dict[int, str | None] = {}
        self._seen: dict[int, int] = {}
        self._running: list[int] = []  # the calls that have begun, outermost first
        self._reads: dict[tuple[int, ...], None] = {}
        self._own = False  # this class reads a file itself
        paths = {sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), *site.getsitepackages(), "/proc", "/sys"}
        self._not_data = tuple(os.path.join(os.path.realpath(path), "") for path in (*paths, "/dev", "/etc"))

    def install(self) -> None:
        """Offer the functions to the script, and listen for reads of data."""
        for name, function in ((BEGUN, self._begin), (CALLED, self._end), (VALUE, self._keep), (ITEMS, self._iterate)):
            setattr(builtins, name, function)
        sys.addaudithook(self._see)

    def write(self, path: str) -> None:
        """Write what was recorded, as JSON."""
        recorded = {"values": self._values, "items": self._items, "reads": list(self._reads)}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(recorded, file)

    def _begin(self, number: int) -> int:
        self._running.append(number)
        return number

    def _end(self, number: int, value: Any) -> Any:
        if number in self._running:
            del self._running[len(self._running) - 1 - self._running[::-1].index(number) :]
        return self._keep(number, value)

    def _keep(self, number: int, value: Any) -> Any:
        seen = self._seen[number] = self._seen.get(number, 0) + 1
        if seen <= _MOST_SEEN and (seen == 1 or self._values[number] is not None):
            text = self._text(value)
            self._values[number] = text if seen == 1 or text == self._values[number] else None
        return value

    def _iterate(self, number: int, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if number not in self._items:
                self._items[number] = self._text(value)
            yield value

    def _text(self, value: Any) -> str | None:
        if hasattr(value, "mode") and hasattr(value, "read") and isinstance(getattr(value, "name", None), str):
            return self._file_text(value)
        try:
            return _literal(value, _Form(_MOST_PARTS, "torch.ones" if _in_compiled_call() else "torch.randn"))
        except _NoText:
            return None

    def _file_text(self, file: Any) -> str | None:
        """The content of a file that is open for reading, as a file in memory."""
        if not os.path.isfile(file.name) or os.path.getsize(file.name) > _MOST_READ or set(file.mode) & set("wax+"):
            return None
        self._own = True
        try:
            with open(file.name, file.mode, encoding=getattr(file, "encoding", None)) as again:
                content = again.read()
        except (OSError, ValueError):
            return None
        finally:
            self._own = False
        return f"__import__('io').{'StringIO' if isinstance(content, str) else 'BytesIO'}({content!r})"

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS or not self._running or self._own:
            return
        by_import = sys._getframe(1).f_code.co_filename.startswith("<frozen importlib")
        if not by_import and _is_data(event, arguments, self._not_data):
            self._reads[tuple(self._running)] = None


def _is_data(event: str, arguments: tuple[Any, ...], not_data: tuple[str, ...]) -> bool:
    if not event.startswith(("open", "os.")):
        return True
    path = arguments[0]
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    if event == "open" and is_writing(arguments[1], arguments[2]):
        return False
    name = os.path.realpath(os.fsdecode(path))
    return not name.startswith(not_data) and not name.endswith(_CODE)


def is_writing(mode: Any, flags: Any) -> bool:
    """Whether an event "open" with this mode, or these flags where it has no mode, may change the file."""
    return any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)


class _NoText(Exception):
    """A value that cannot be written as Python."""


class _Form:
    """How a value is written: how many values within it may still be, and what makes its larger tensors.

    Random numbers would be drawn anew by compiled code, which draws others than eager: a wrong result by themselves.
    """

    def __init__(self, parts: int, floats: str) -> None:
        self.parts = parts
        self.floats = floats

    def count(self) -> None:
        """Count one value. Raises _NoText where it is one too many."""
        self.parts -= 1
        if self.parts < 0:
            raise _NoText


def _in_compiled_call() -> bool:
    """Whether a function that the script compiles is running. (torch.compile itself is switched off.)"""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith(_OF_COMPILED_CALLS):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _literal(value: Any, form: _Form) -> str:
    """Python for `value`. Raises _NoText."""
    import torch

    form.count()
    kind = type(value)
    if value is None or kind in (bool, int) or (kind is float and math.isfinite(value)):
        return repr(value)
    if kind in (str, bytes) and len(value) <= _MOST_READ and value not in os.environ.values():
        return repr(value)
    if kind in (torch.dtype, torch.memory_format, torch.layout):
        return repr(value)
    if kind is torch.device:
        return f"torch.device({str(value)!r})"
    if kind in (tuple, torch.Size):
        return "(" + "".join(f"{_literal(item, form)}, " for item in value).rstrip(" ") + ")"
    if kind is list:
        return "[" + ", ".join(_literal(item, form) for item in value) + "]"
    if isinstance(value, (type, types.FunctionType)) and _is_global(value):
        return value.__name__
    if kind.__name__ in ("dict", "OrderedDict"):
        return "{" + ", ".join(f"{_literal(key, form)}: {_literal(item, form)}" for key, item in value.items()) + "}"
    if kind in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
        return _tensor(value, form.floats)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return _array(value, form.floats)
    maker = _maker(value)
    if maker is not None:
        return f"{maker}({', '.join(f'{name}={_literal(item, form)}' for name, item in vars(value).items())})"
    raise _NoText


def _is_global(value: Any) -> bool:
    """Whether the script gives this class or function its own name."""
    return value.__module__ == "__main__" and vars(sys.modules["__main__"]).get(value.__name__) is value


def _maker(value: Any) -> str | None:
    """What makes an object of its attributes: a namespace, or a dataclass of the script; None for any other object."""
    kind = type(value)
    if kind in (types.SimpleNamespace, argparse.Namespace):
        return f"__import__({kind.__module__!r}).{kind.__name__}" if all(map(str.isidentifier, vars(value))) else None
    if kind.__module__ != "__main__" or not dataclasses.is_dataclass(value) or not hasattr(value, "__dict__"):
        return None
    made_of = {field.name for field in dataclasses.fields(value) if field.init}
    return kind.__qualname__ if kind.__qualname__.isidentifier() and made_of == set(vars(value)) else None


def _array(value: Any, floats: str) -> str:
    """Python for a numpy array of the same shape and dtype."""
    import torch

    try:
        return f"{_tensor(torch.from_numpy(value).contiguous(), floats)}.numpy()"
    except (TypeError, ValueError, RuntimeError):  # texts, dates, objects, negative strides
        raise _NoText from None


def _tensor(value: Any, floats: str) -> str:
    """Python for a tensor of the same shape, dtype, strides and device; only few integers keep their values.

    `floats`: the function that makes one of floats.
    """
    import torch

    options = "" if value.dtype is torch.get_default_dtype() else f", dtype={value.dtype}"
    if value.device.type != "cpu":
        options += f", device={str(value.device)!r}"
    sizes, strides = tuple(value.shape), tuple(value.stride())
    is_float = value.dtype.is_floating_point or value.dtype.is_complex
    if value.numel() <= (1 if is_float else _SMALL) and value.is_contiguous():
        text = f"torch.tensor({value.tolist()}{options})"
    else:
        make = floats if is_float else "torch.zeros"
        if make == "torch.randn" and value.dtype.itemsize < 2:
            raise _NoText  # torch.randn has no numbers of so few bits
        if value.is_contiguous():
            text = f"{make}({sizes}{options})"
        else:
            extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
            text = f"{make}({extent}{options}).as_strided({sizes}, {strides})"
    if isinstance(value, torch.nn.Parameter):
        return f"torch.nn.Parameter({text}{'' if value.requires_grad else ', False'})"
    return text + (".requires_grad_()" if value.requires_grad else "")
