"""A compiled module in low precision is held against double precision, gradients too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from repro_probe.calls.calls import Call  # noqa: E402
from repro_probe.calls.compare_calls import observe  # noqa: E402

pytestmark = pytest.mark.torch


def compared(module: Any, spoil: Any, argument: Any) -> dict[str, Any]:
    owner: Any = SimpleNamespace(record={}, original=module)
    observe(Call(owner, lambda x: spoil(module(x)), (argument,), {}))
    record: dict[str, Any] = owner.record
    return record


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_training_has_a_reference(dtype: str) -> None:
    torch.manual_seed(0)
    narrow = getattr(torch, dtype)
    layers = (torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    module = torch.nn.Sequential(*layers).to(narrow)
    record = compared(module, lambda out: out * 1.5, torch.randn(8, 16).to(narrow))
    rows = {row["where"]: row for row in record["errors"]}
    assert {"output 0", "grad of 0.weight"} <= rows.keys()
    assert all(row["eager"] is not None and row["compiled"] > 2 * row["eager"] for row in rows.values())
    assert record["difference"]["kind"] == "value" and not record["rounding"]
    assert all(parameter.dtype is narrow and parameter.grad is None for parameter in module.parameters())


def test_a_module_that_checks_its_dtypes_has_a_reference() -> None:
    torch.manual_seed(0)
    up = torch.nn.Upsample(scale_factor=2, mode="bilinear")
    module = torch.nn.Sequential(up, torch.nn.Conv2d(3, 4, 3)).half()
    with torch.no_grad():
        record = compared(module, lambda out: out * 1.5, torch.randn(1, 3, 8, 8).half())
    assert [row["eager"] is not None for row in record["errors"]] == [True]


class _Doubled(torch.autograd.Function):
    """A gradient that is twice what it must be; the result is right."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


class _Trainer:
    def __init__(self) -> None:
        self.model = torch.nn.Linear(3, 1)

    def loss(self, x: Any) -> Any:
        return self.model(x).sum()


@pytest.mark.parametrize("of", ["argument", "object"])
def test_gradients_of_the_modules_of_arguments_and_of_the_owner_are_compared(of: str) -> None:
    trainer = _Trainer()
    x = torch.ones(2, 3)
    if of == "argument":
        owner: Any = SimpleNamespace(record={}, original=lambda model, x: model(x).sum())
        observe(Call(owner, lambda model, x: _Doubled.apply(model(x)).sum(), (trainer.model, x), {}))
    else:
        owner = SimpleNamespace(record={}, original=trainer.loss)
        observe(Call(owner, lambda x: _Doubled.apply(trainer.model(x)).sum(), (x,), {}))
    difference = owner.record["difference"]
    name = "argument 0" if of == "argument" else "self.model"
    assert (difference["kind"], difference["where"]) == ("value", f"grad of {name}.weight")
    assert trainer.model.weight.grad is None
