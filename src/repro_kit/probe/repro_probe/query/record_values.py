"""Run a program in eager and record the value of every name that `graph` assigns."""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from repro_probe.protocol.queries import QueryPhase
from repro_probe.record.values import pointer_of
from repro_probe.run.load_program import LoadedProgram, seed

HOOK = "__repro_record__"  # the name that instrumented code calls
_FEW = 8  # a tensor of so many elements has them all in the record
_INF = float("inf")


def run(
    program: LoadedProgram, text: str, recorder: ValueRecorder, step: Callable[[QueryPhase], None]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run all calls in eager. Return the metadata of every value by name: of the first call, and of each later one.

    An exception that the program is to raise in eager ends a call.
    """
    namespace = dict(program.namespace)
    namespace[HOOK] = recorder.record
    exec(instrumented(text, program.namespace["__file__"]), namespace)
    expected = [Exception] if program.recipe["validation"] else []
    seed(program.recipe)
    calls, values_of_calls = program.calls(), []
    for number, arguments in enumerate(calls):
        step("eager")
        recorder.start(number)
        for name, value in zip(program.parameters, arguments):
            recorder.record(name, value)
        with program.forward_region(), contextlib.suppress(*expected):
            namespace["graph"](*arguments)
        values_of_calls.append(recorder.values)
    return values_of_calls[0] if values_of_calls else {}, values_of_calls[1:]


@contextlib.contextmanager
def _plainly() -> Iterator[None]:
    with torch._C.DisableTorchFunction(), _disable_current_modes(), temporarily_clear_interpreter_stack():  # noqa: SIM117
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            yield


def graph_of(text: str) -> ast.FunctionDef:
    """Return the function `graph` of the program `text`."""
    (function,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "graph"]
    return function


def defined(function: ast.FunctionDef, program: LoadedProgram) -> dict[str, Any]:
    """Return the namespace of `program` with another `graph`."""
    module = ast.fix_missing_locations(ast.Module([function], []))
    namespace = dict(program.namespace)
    exec(compile(module, namespace["__file__"], "exec"), namespace)
    return namespace


def instrumented(text: str, path: str) -> CodeType:
    """Return code that defines `graph` with a call of the recorder after each assignment to a name."""
    function = graph_of(text)
    body = []
    for statement in function.body:
        body.append(statement)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            report = ast.parse(f"{HOOK}({name!r}, {name})").body[0]
            body.append(ast.fix_missing_locations(ast.copy_location(report, statement)))
    function.body = body
    return compile(ast.Module([function], []), path, "exec")


class ValueRecorder:
    """Records the metadata of every value when it is assigned, and saves the values in `wanted`.

    Files go to the directory `save`: ``NAME.pt``, and ``NAME.<call>.pt`` for a later call.
    """

    def __init__(self, wanted: Iterable[str], save: str | None) -> None:
        self.wanted = set(wanted)
        self.save = save
        self.start(0)

    def start(self, call: int) -> None:
        """Begin a call."""
        self.call = call
        self.values: dict[str, Any] = {}
        self.storages: dict[int, tuple[int, Any]] = {}

    def record(self, name: str, value: Any) -> None:
        """Record `value`, which is assigned to `name`."""
        # The recorder's own operators must not be differentiated, batched, seen by a mode, or affected by autocast.
        with _plainly():
            self.values[name] = self._describe(value, name if name in self.wanted else None)

    def _describe(self, value: Any, file: str | None) -> Any:
        if isinstance(value, torch.Tensor):
            try:
                return self._describe_tensor(value, file)
            except (AttributeError, NotImplementedError, RuntimeError, TypeError):  # a subclass may lack any part
                return {"python": type(value).__name__, "value": None}
        if isinstance(value, (list, tuple)):
            return [self._describe(item, None if file is None else f"{file}_{at}") for at, item in enumerate(value)]
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"python": type(value).__name__, "value": _json_number(value)}
        return {"python": type(value).__name__, "value": None}

    def _describe_tensor(self, value: Any, file: str | None) -> dict[str, Any]:
        if torch._C._functorch.is_functorch_wrapped_tensor(value):  # cannot be read outside of its vmap or grad
            return {"python": "functorch wrapper", "value": None}
        plain = value.layout == torch.strided
        numbers = _numbers(value)
        low: Any = None if numbers is None else numbers.min().item()
        high: Any = None if numbers is None else numbers.max().item()
        return {
            "shape": [int(size) for size in value.shape],
            "stride": [int(step) for step in value.stride()] if plain else None,
            "offset": int(value.storage_offset()) if plain else 0,
            "dtype": str(value.dtype),
            "device": str(value.device),
            "requires_grad": bool(value.requires_grad),
            "storage": self._storage(value) if plain else None,
            "min": _json_number(low),
            "max": _json_number(high),
            "form": _form(value),
            "samples": [] if numbers is None else _samples(numbers, low, high),
            "file": self._write(value, file) if file is not None and plain else None,
        }

    def _storage(self, value: Any) -> int:
        """Return a small number for the storage, which is kept alive so that no other storage gets its address."""
        storage = value.untyped_storage()
        numbered = self.storages.setdefault(pointer_of(value) or id(value), (len(self.storages), storage))
        return numbered[0]

    def _write(self, value: Any, file: str) -> str:
        name = f"{file}.{self.call}.pt" if self.call else f"{file}.pt"
        assert self.save is not None
        os.makedirs(self.save, exist_ok=True)
        torch.save(_to_store(value), os.path.join(self.save, name))
        return name


def _to_store(value: torch.Tensor) -> torch.Tensor:
    """Return a copy of a contiguous tensor, or of the flat span of another tensor's storage."""
    value = value.detach()
    if value._is_zerotensor():
        return value.clone()
    if not value.is_contiguous():
        span = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride())) if value.numel() else 0
        value = value.as_strided((span,), (1,), value.storage_offset())
    return value.clone(memory_format=torch.contiguous_format)


def _numbers(value: torch.Tensor) -> torch.Tensor | None:
    """Return the elements in the widest dtype of their kind; None for complex and empty tensors and other layouts."""
    if value.numel() == 0 or value.is_complex() or value.is_quantized or value.layout != torch.strided:
        return None
    numbers = value.detach()
    return numbers.double() if numbers.is_floating_point() else numbers.to(torch.int64)


def _form(value: torch.Tensor) -> str:
    """Return what holds of all elements together, in the words of docs/explanation/zygote.md; "" for random ones."""
    if value.numel() < 3 or value.layout != torch.strided or value.is_quantized or value.is_complex():
        return ""
    value = value.detach()
    if value.dtype == torch.bool:
        ones = torch.ones_like(value)
        corners = {"lower": ones.tril(), "upper": ones.triu(1)} if value.dim() > 1 and min(value.shape[-2:]) > 1 else {}
        return next((name for name, corner in corners.items() if value.equal(corner)), "")
    if not value.is_floating_point() and value.dtype not in _WHOLE:
        return ""
    if value.is_floating_point():
        value = value.double()
        sums = value.sum(-1)
        if value.shape[-1] > 1 and bool((value >= 0).all() and (sums - 1).abs().max() < _NEARLY):
            return "probabilities"
    else:
        value = value.to(torch.int64)
    if value.dim() != 1:
        return ""
    steps = value.diff()
    if value.is_floating_point() and len(value) < _FEW:  # few may rise by chance
        return ""
    if bool((steps >= 0).all() and (steps > 0).any() and value.double().isfinite().all()):
        return "rises"
    is_order = not value.is_floating_point() and value.sort()[0].equal(torch.arange(len(value), device=value.device))
    return "permutation" if is_order else ""


_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
_NEARLY = 1e-2  # how far a sum of probabilities in half precision may be from one


def _samples(numbers: torch.Tensor, low: float, high: float) -> list[Any]:
    """Return all of few elements, in order; else those that random values lack, the extremes and the first one."""
    flat = numbers.reshape(-1)
    if flat.numel() <= _FEW:
        return [_json_sample(number) for number in flat.tolist()]
    special = []
    if _json_number(low) is None or _json_number(high) is None:
        special += [number for number in (_INF, -_INF) if (flat == number).any()]
        special += [float("nan")] if flat.isnan().any() else []
        flat = flat[flat.isfinite()]
        low, high = (flat.min().item(), flat.max().item()) if flat.numel() else (special[0], special[0])
    if flat.is_floating_point() and ((flat == 0) & flat.signbit()).any():
        special.append(-0.0)
    return [_json_sample(number) for number in (*special, low, high, *flat[:1].tolist())]


def _json_sample(number: Any) -> Any:
    """Return `number`, or its name for NaN and the infinities, which JSON lacks."""
    return str(number) if _json_number(number) is None else number


def _json_number(number: Any) -> Any:
    """Return `number`, or None for NaN and the infinities, which JSON lacks."""
    unusual = isinstance(number, float) and (number != number or number in (_INF, -_INF))
    return None if unusual else number
