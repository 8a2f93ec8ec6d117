"""Short programs with torch.compile that pass: what each prints must not depend on who watches.

Run as a script, this file prints the results of all programs as JSON: ``python healthy_programs.py BACKEND``.
"""

from __future__ import annotations

import copy
import functools
import gc
import io
import json
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

BACKEND = sys.argv[1] if __name__ == "__main__" else "eager"
compiled = functools.partial(torch.compile, backend=BACKEND)
PROGRAMS: dict[str, Callable[[], object]] = {}


def program(function: Callable[[], object]) -> Callable[[], object]:
    PROGRAMS[function.__name__] = function
    return function


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape).requires_grad_()


def several(x: Tensor) -> tuple[Tensor, Tensor]:
    return x * 2, x.sin()


def gradient_of(x: Tensor) -> Tensor:
    assert x.grad is not None
    return x.grad


@program
def a_result_without_use() -> object:
    x = leaf(3)
    first, _ = compiled(several)(x)
    first.sum().backward()
    return gradient_of(x)


@program
def a_class_whose_handler_counts() -> object:
    seen: list[str] = []

    class Context:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Context)

        def __hash__(self) -> int:
            return 1

        def __repr__(self) -> str:
            raise ValueError("nobody needs this text")

    context = Context()

    class Counted(Tensor):
        inner: Tensor

        @staticmethod
        def __new__(cls, inner: Tensor) -> Any:
            made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        def __tensor_flatten__(self) -> tuple[list[str], Context]:
            return ["inner"], context

        @staticmethod
        def __tensor_unflatten__(tensors: dict[str, Tensor], *_: object) -> Any:
            return Counted(tensors["inner"])

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            result = function(*(part.inner if isinstance(part, Counted) else part for part in args), **(kwargs or {}))
            return Counted(result) if isinstance(result, Tensor) else result

    result = compiled(lambda x: x.sin() * 2, fullgraph=True)(Counted(torch.ones(2)))
    return result.inner, sorted(set(seen)), seen.count("aten.sin.default")


@program
def hooks_of_several_results() -> object:
    seen: list[list[bool]] = []
    results = compiled(several)(leaf(3))
    register_multi_grad_hook(results, lambda gradients: seen.append([gradient is None for gradient in gradients]))
    results[1].sum().backward()
    return seen


@program
def the_order_of_hooks() -> object:
    order: list[str] = []
    x = leaf(3)
    y = compiled(lambda x: x * 2)(x)
    y.register_hook(lambda gradient: order.append("first") or gradient * 3)
    y.register_hook(lambda gradient: order.append("second"))
    y.register_hook(lambda gradient: order.append("removed")).remove()
    y.sum().backward()
    return order, gradient_of(x)


@program
def gradients_that_are_not_made() -> object:
    class Unmade(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> Tensor | None:
            return first if second is None else second

    x = leaf(2)
    compiled(lambda x: Unmade.apply(x))(x)[0].sum().backward()
    return gradient_of(x)


@program
def a_sparse_gradient() -> object:
    table = nn.Embedding(5, 3, sparse=True)
    compiled(lambda rows: table(rows).sum())(torch.tensor([1, 2])).backward()
    return str(gradient_of(table.weight).layout)


@program
def a_gradient_of_a_nested_tensor() -> object:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    compiled(lambda x: x.sin())(nested).values().sum().backward()
    return nested.grad is not None


@program
def a_result_that_is_changed() -> object:
    x = leaf(4)
    y = compiled(lambda x: x * 2)(x)
    y.add_(1)
    y[:2].mul_(3)
    y.sum().backward()
    return gradient_of(x)


@program
def a_view_as_result() -> object:
    x = leaf(4, 4)
    y = compiled(lambda x: x.view(2, 8))(x)
    y.sum().backward()
    return y.data_ptr() == x.data_ptr(), gradient_of(x)


@program
def how_long_values_live() -> object:
    x = leaf(10)
    y = compiled(lambda x: x.sin())(x)
    alive = weakref.ref(y)
    y.sum().backward()
    del x, y
    gc.collect()
    return alive() is None


@program
def the_node_of_a_result() -> object:
    y = compiled(lambda x: x * 2)(leaf(2))
    return type(y.grad_fn).__name__, repr(y).split("(")[0]


@program
def modes_see_the_calls_of_the_program_only() -> object:
    names: list[str] = []

    class Named(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(function.__name__)
            return function(*args, **(kwargs or {}))

    function, x = compiled(lambda x: x.sin()), leaf(2)
    for _ in range(2):
        with Named():
            function(x)
    return names


@program
def hooks_for_saved_tensors() -> object:
    saved: list[int] = []
    with saved_tensors_hooks(lambda tensor: saved.append(1) or tensor, lambda tensor: tensor):
        y = compiled(lambda x: x.sin().exp())(leaf(2))
    y.sum().backward()
    return len(saved)


@program
def hooks_of_modules() -> object:
    module, order = nn.Linear(2, 2), []
    module.register_forward_pre_hook(lambda *_: order.append("before"))
    module.register_full_backward_hook(lambda *_: order.append("backward"))
    compiled(module)(leaf(1, 2)).sum().backward()
    return order


@program
def checkpoints() -> object:
    layer, gradients = nn.Linear(3, 3), []
    for reentrant in (True, False):
        x = torch.ones(2, 3, requires_grad=True)
        checkpoint(compiled(layer), x, use_reentrant=reentrant).sum().backward()
        gradients.append(gradient_of(x).shape)
    return gradients


@program
def transforms_of_functions() -> object:
    function = compiled(lambda x: x.sin().sum())
    return torch.func.grad(function)(torch.ones(3)), torch.vmap(function)(torch.ones(2, 3))


@program
def anomalies_are_looked_for() -> object:
    x = leaf(2)
    with torch.autograd.detect_anomaly(check_nan=False):
        compiled(lambda x: x.exp().sum())(x).backward()
    return gradient_of(x)


@program
def modules_are_copied_and_saved() -> object:
    module = compiled(nn.Linear(3, 2))
    module(torch.ones(1, 3))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    return type(loaded).__name__, sorted(copy.deepcopy(module).state_dict())


@program
def several_threads() -> object:
    function, sums = compiled(lambda x: x.cos() + 1), []
    threads = [threading.Thread(target=lambda: sums.append(function(torch.zeros(3)).sum())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sums


@program
def an_exception_of_the_program() -> object:
    def refuse(x: Tensor) -> Tensor:
        raise ValueError("mine")

    try:
        compiled(refuse)(torch.ones(3))
    except ValueError as error:
        return str(error), repr(error.__cause__), traceback.extract_tb(error.__traceback__)[-1].name
    return None


@program
def a_backend_of_the_program() -> object:
    inputs: list[int] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Tensor]) -> Callable[..., Any]:
        inputs.append(len(examples))
        return graph.forward

    torch.compile(lambda x, y: x + y, backend=backend)(torch.ones(2), torch.ones(2))
    return inputs


@program
def the_state_of_random_numbers() -> object:
    torch.manual_seed(0)
    compiled(lambda x: x + 1)(torch.ones(2))
    return torch.rand(2)


@program
def a_step_of_an_optimizer() -> object:
    layer = nn.Linear(3, 3)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    compiled(optimizer.step)()
    return layer.weight


@program
def inputs_of_other_sizes() -> object:
    function = compiled(lambda x: x * 2)
    return [function(torch.ones(size)).sum() for size in (2, 3, 4)]


@program
def an_alarm_of_the_program() -> object:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    function = compiled(lambda x: x + 1)
    while not rung:
        function(torch.ones(2))
    signal.signal(signal.SIGALRM, before)
    return rung, signal.getitimer(signal.ITIMER_REAL)


@program
def the_state_of_the_interpreter() -> object:
    signals = [signal.getsignal(number) for number in signal.valid_signals()]
    threads = [thread.name for thread in threading.enumerate()]
    return (
        signals,
        threads,
        gc.get_freeze_count(),
        gc.isenabled(),
        sys.path[1:],
        sys.gettrace(),
        sys.getrecursionlimit(),
    )


def plain(value: object) -> object:
    if isinstance(value, Tensor):
        return [round(float(number), 4) for number in value.detach().flatten()]
    return repr(value)


def main() -> None:
    results: dict[str, object] = {}
    for name, run in PROGRAMS.items():
        torch._dynamo.reset()
        torch.manual_seed(1)
        try:
            results[name] = run()
        except Exception as error:  # the others are to run, and the comparison tells of this one
            results[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(results, default=plain))


if __name__ == "__main__":
    main()
