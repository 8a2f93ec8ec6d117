"""Each property of a call that is compared with eager, shown by a call that differs in nothing else."""

from __future__ import annotations

import contextlib
import enum
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from repro_probe.calls.calls import Call, CompiledCallable  # noqa: E402
from repro_probe.calls.compare_calls import observe  # noqa: E402

pytestmark = pytest.mark.torch


def compared(eager: Callable[..., Any], compiled: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    owner: Any = SimpleNamespace(record={}, original=eager)
    observe(Call(owner, compiled, arguments, {}))
    record: dict[str, Any] = owner.record
    return record


class Mode(enum.Enum):
    FAST, SLOW = 1, 2


@dataclass
class Scaled:
    values: Any
    scale: float


class Counted:
    def __init__(self, count: int) -> None:
        self.count = count


class Slotted:
    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Marked(torch.Tensor):
    pass


def warns(x: Any) -> Any:
    warnings.warn("a value is small", stacklevel=1)
    return x + 1


def draws_number(x: Any) -> Any:
    random.random()
    return x + 1


def draws_tensor(x: Any) -> Any:
    torch.rand(1)
    return x + 1


def twice(x: Any) -> Any:
    y = x + 1
    return y, y


def written(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        change(x)
        return torch.zeros(())

    return call


def ones(*shape: int, **options: Any) -> Any:
    return torch.ones(shape or (2, 3), **options)


def leaf() -> Any:
    return ones(requires_grad=True)


PROPERTIES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, str, str]] = {
    "value": (lambda x: x + 1, lambda x: x + 2, ones(), "value", "output 0"),
    "NaN": (lambda x: x + 1, lambda x: x * torch.nan, ones(), "nan", "output 0"),
    "shape": (lambda x: x + 1, lambda x: (x + 1)[None], ones(), "shape", "output 0"),
    "dtype": (lambda x: x + 1, lambda x: (x + 1).double(), ones(), "dtype", "output 0"),
    "stride": (lambda x: x + 1, lambda x: (x + 1).t().contiguous().t(), ones(), "stride", "output 0"),
    "layout": (lambda x: x + 1, lambda x: (x + 1).to_sparse(), ones(), "layout", "output 0"),
    "device": (lambda x: x.new_empty(0), lambda x: torch.empty(0, device="meta"), ones(), "device", "output 0"),
    "class": (lambda x: (x + 1).as_subclass(Marked), lambda x: x + 1, ones(), "structure", "output 0"),
    "structure": (lambda x: [x + 1], lambda x: (x + 1,), ones(), "structure", "output"),
    "requires_grad": (lambda x: x * 2, lambda x: (x * 2).requires_grad_(), ones(), "requires_grad", "output 0"),
    "gradient": (lambda x: x * 2, lambda x: (x * 3) - x.detach(), leaf(), "value", "grad of argument 0"),
    "no gradient": (
        lambda x: (x * 2, x.detach() + 0),
        lambda x: (torch.ones_like(x, requires_grad=True) * 2, x.detach() + 0),
        leaf(),
        "structure",
        "grad of argument 0",
    ),
    "shared with an argument": (lambda x: x.view(-1), lambda x: x.reshape(-1).clone(), ones(), "alias", "output 0"),
    "shared with an output": (twice, lambda x: (x + 1, x + 1), ones(), "alias", "output 0"),
    "not shared": (lambda x: (x + 1, x + 1), twice, ones(), "alias", "output 0"),
    "written argument": (written(lambda x: x.add_(1)), written(len), ones(), "value", "argument 0 after the call"),
    "stride of an argument": (
        written(lambda x: x.t_()),
        written(len),
        ones(2, 2),
        "stride",
        "argument 0 after the call",
    ),
    "requires_grad of an argument": (
        written(lambda x: x.requires_grad_()),
        written(len),
        ones(),
        "requires_grad",
        "argument 0 after the call",
    ),
    "set": (lambda x: {"a", "b"}, lambda x: {"a", "c"}, ones(), "value", "output 0[1]"),
    "frozenset": (lambda x: frozenset({1}), lambda x: frozenset({2}), ones(), "value", "output 0[0]"),
    "smaller set": (lambda x: {1, 2}, lambda x: {1}, ones(), "structure", "output"),
    "range": (lambda x: range(3), lambda x: range(4), ones(), "value", "output 0"),
    "slice": (lambda x: slice(3), lambda x: slice(4), ones(), "value", "output 0"),
    "complex": (lambda x: 1j, lambda x: 2j, ones(), "value", "output 0"),
    "enum": (lambda x: Mode.FAST, lambda x: Mode.SLOW, ones(), "value", "output 0"),
    "dataclass": (lambda x: Scaled(x + 1, 2.0), lambda x: Scaled(x + 1, 3.0), ones(), "value", "output 0.scale"),
    "tensor in an object": (
        lambda x: Scaled(x + 1, 2.0),
        lambda x: Scaled(x + 2, 2.0),
        ones(),
        "value",
        "output 0.values",
    ),
    "object": (lambda x: Counted(1), lambda x: Counted(2), ones(), "value", "output 0.count"),
    "slots": (lambda x: Slotted(1), lambda x: Slotted(2), ones(), "value", "output 0.count"),
    "keys": (lambda x: {"a": 1}.keys(), lambda x: {"b": 1}.keys(), ones(), "value", "output 0().0"),
    "Python's random numbers": (draws_number, lambda x: x + 1, ones(), "random", "state of random numbers of random"),
    "torch's random numbers": (lambda x: x + 1, draws_tensor, ones(), "random", "state of random numbers of torch"),
    "warning": (warns, lambda x: x + 1, ones(), "warning", "warnings"),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_call_that_differs_in_one_property_is_seen_by_it(name: str) -> None:
    eager, compiled, argument, kind, where = PROPERTIES[name]
    record = compared(eager, compiled, argument)
    assert record.get("difference") is not None, record
    found = [record["difference"], *record["also"]]
    assert {each["kind"] for each in found} == {kind}
    assert found[0]["where"] == where
    alike = compared(eager, lambda *given: eager(*given), argument)
    assert (alike["compared"], alike.get("difference")) == (1, None)


def raises(x: Any) -> Any:
    assert (x < 0).all(), "not negative"
    return x + 1


def test_an_exception_of_one_side_is_seen() -> None:
    def fails(x: Any) -> Any:
        raise RuntimeError("only here")

    for eager, compiled in ((raises, lambda x: x + 1), (lambda x: x + 1, fails)):
        owner: Any = SimpleNamespace(record={}, original=eager)
        with pytest.raises((AssertionError, RuntimeError)):
            observe(Call(owner, compiled, (ones(),), {}))
        assert owner.record["raised"]


def test_where_eager_raises_an_exception_of_another_kind_is_no_agreement() -> None:
    def fails(x: Any) -> Any:
        raise RuntimeError("only compiled")

    def fails_alike(x: Any) -> Any:
        raise type("Translated", (AssertionError,), {})("in other words")

    records: list[Any] = []
    for compiled in (fails, fails_alike):
        owner: Any = SimpleNamespace(record={}, original=raises)
        with contextlib.suppress(RuntimeError):
            observe(Call(owner, compiled, (ones(),), {}))
        records.append(owner.record)
    assert records == [
        {"both": "AssertionError"},
        {"both": "AssertionError", "compared": 1, "note": records[1]["note"]},
    ]


def draws_more(x: Any) -> Any:
    torch.rand(2)
    return x + 1


def wide(x: Any) -> Any:
    return x[:, ::2] * 1, x[0].expand(4, 3) * 1, {torch.ones(2)}, object(), iter


def drops_nothing(x: Any) -> Any:
    y = x + 1
    return y, torch.nn.functional.dropout(y, training=False), torch.nn.functional.dropout(x, 0.0)


def pooled(x: Any) -> Any:
    memory = torch.cat([x + 1, x + 2])
    return memory[:2], memory[2:]


HEALTHY: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "other random numbers": (draws_tensor, draws_more, (ones(),)),
    "a dropout that drops nothing": (drops_nothing, lambda x: (x + 1, x + 1, x.clone()), (ones(),)),
    "a zero's sign": (lambda x: x * 0.0, lambda x: x * -0.0, (ones(),)),
    "a stride of size 1": (lambda x: x[:, :1] + 1, lambda x: (x[:, :1] + 1).as_strided((2, 1), (1, 7)), (ones(),)),
    "strides of a gradient": (lambda x: x.t() * 2, lambda x: (x * 2).t(), (leaf(),)),
    "one memory, but no common byte": (lambda x: (x + 1, x + 2), pooled, (ones(),)),
    "sets of tensors and objects": (wide, wide, (ones(),)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_compiled_code_may_do_otherwise_is_no_difference(name: str) -> None:
    record = compared(*HEALTHY[name][:2], *HEALTHY[name][2])
    assert (record["compared"], record.get("difference")) == (1, None)


def test_a_call_is_repeated_with_arguments_that_lie_in_memory_as_the_script_s_do() -> None:
    whole = ones(3, 2)
    base, weight = torch.arange(24.0), torch.nn.Parameter(torch.ones(3))
    rows = base.view(4, 6)[:, 1:5:2]
    arguments = (
        rows,
        base[2:],
        rows,
        ones(1).expand(4, 2),
        ones(2, 2).t(),
        weight,
        weight,
        leaf()[0].detach(),
        whole[1:],
        whole,
    )

    def seen(*given: Any) -> Any:
        forms.append([(type(it), it.shape, it.stride(), it.storage_offset() % 16, it.requires_grad) for it in given])
        shared.append(
            [[it.untyped_storage().data_ptr() == a.untyped_storage().data_ptr() for a in given] for it in given]
        )
        assert given[0] is given[2] and given[5] is given[6] and given[8]._base is given[9]
        given[1].mul_(2)
        return given[0].sum()

    forms: list[Any] = []
    shared: list[Any] = []
    expected = base.clone()
    record = compared(seen, lambda rows, rest, *others: (rest.mul_(2), rows.sum() / 2)[1], *arguments)
    assert record["difference"]["where"] == "output 0", "the write to the other view is seen"
    assert torch.equal(base, expected)
    seen(*arguments)
    assert all(form == forms[-1] for form in forms) and all(it == shared[-1] for it in shared)


def turns(weight: Any) -> None:
    weight.data = weight.data.t()


@pytest.mark.parametrize(
    ("change", "kind"), [(lambda weight: weight.requires_grad_(False), "requires_grad"), (turns, "stride")]
)
def test_what_a_call_does_to_a_parameter_besides_its_values_is_seen_and_put_back(change: Any, kind: str) -> None:
    module = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        module.weight.fill_(1.0)

    def changes(x: Any) -> Any:
        change(module.weight)
        return x + 1

    record = compared(changes, lambda x: x + 1, ones(2, 2))
    assert (record["difference"]["kind"], record["difference"]["where"]) == (kind, "module.weight after the call")
    assert module.weight.requires_grad and module.weight.stride() == (2, 1)


class Wrapper(torch.nn.Module):
    """A wrapper that has no length, as that of torch.compile once was."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *given: Any) -> Any:
        return self.module(*given)


def test_a_compiled_module_that_is_never_called_is_asked_what_python_asks_a_container() -> None:
    calls: Any = SimpleNamespace(observers=[(observe, 3)])
    for module, differs in ((torch.nn.ModuleList(), True), (torch.nn.Linear(1, 1), False)):
        callable_ = CompiledCallable(calls, module, Wrapper(module))
        callable_.end()
        assert ("never called, but bool()" in callable_.record.get("problem", "")) is differs
