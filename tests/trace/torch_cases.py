"""Ways in which torch.compile fails, or only seems to; one function each. Run as ``python torch_cases.py NAME``."""

from __future__ import annotations

import faulthandler
import functools
import os
import sys

import torch
import torch._inductor.config
from torch._inductor.lowering import lowerings

x = torch.ones(8, 8)


def f(x):
    return torch.relu(x @ x + 1).sum()


def broken(x):
    torch._dynamo.graph_break()
    return x + 1


def graph_break_allowed():
    torch.compile(lambda x: broken(x) * 2)(x)


def graph_break_skips_frame():
    def h(x):
        try:
            with torch.no_grad():
                y = x + 1
                torch._dynamo.graph_break()
            return y
        finally:
            x + 2

    torch.compile(h)(x)


def graph_break_fullgraph():
    torch.compile(broken, fullgraph=True)(x)


def user_exception():
    def h(x):
        if x.shape[0] == 8:
            raise ValueError("user says no")
        return x

    torch.compile(h)(x)


def recompile_limit():
    torch._dynamo.config.recompile_limit = 2
    h = torch.compile(lambda x: x * 2, dynamic=False)
    for i in range(4):
        h(torch.ones(i + 2))


def recompile_limit_fullgraph():
    torch._dynamo.config.recompile_limit = 2
    h = torch.compile(lambda x: x * 2, dynamic=False, fullgraph=True)
    for i in range(4):
        h(torch.ones(i + 2))


def tensorify_restart():
    torch._dynamo.config.specialize_float = False
    h = torch.compile(lambda x, n: torch.relu(x * (n + 1)) if n > 0 else x)
    for i in range(3):
        h(x, i + 0.5)


def backend_error():
    torch.compile(f, backend="relu_compile_error_TESTING_ONLY")(x)


def backend_error_suppressed():
    torch._dynamo.config.suppress_errors = True
    backend_error()


def backend_error_caught():
    try:
        backend_error()
    except Exception as error:
        print("caught", type(error).__name__)


def internal_error():
    from torch._dynamo.variables.tensor import TensorVariable

    def boom(*args, **kwargs):
        raise KeyError("internal 5")

    TensorVariable.call_method = boom
    torch.compile(lambda x: x.sin())(x)


def data_dependent_fullgraph():
    torch.compile(lambda x: x * 2 if x.sum().item() > 3 else x, fullgraph=True)(x)


def cpp_compile_error():
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
    torch.compile(f)(x)


def runtime_error():
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"
    torch.compile(f)(x)


def wrong_result():
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    torch.testing.assert_close(torch.compile(f)(x), f(x))


def lowering_error():
    def bad(x):
        raise AssertionError("my lowering is bad for size 8")

    lowerings[torch.ops.aten.relu.default] = bad
    torch.compile(f)(x)


def backward_error():
    def bad(*args, **kwargs):
        raise AssertionError("bad backward")

    lowerings[torch.ops.aten.where.self] = bad
    torch.compile(lambda x: torch.relu(x).sum())(x.clone().requires_grad_()).backward()


def abort():
    faulthandler.enable()
    lowerings[torch.ops.aten.relu.default] = lambda x: os.abort()
    torch.compile(f)(x)


def hang():
    def endless(x):
        faulthandler.dump_traceback_later(1, exit=True)
        while True:
            pass

    lowerings[torch.ops.aten.relu.default] = endless
    torch.compile(f)(x)


#: What Dynamo does is the same under every backend, and this one compiles at once.
graph = functools.partial(torch.compile, backend="eager")


def multiplied_with_static():
    def f(x, w):
        return x * w

    a = torch.ones(10)
    torch._dynamo.maybe_mark_dynamic(a, 0)
    graph(f)(a, torch.ones(10))
    graph(f)(torch.ones(12), torch.ones(12))


def branch_on_size():
    @graph(dynamic=True)
    def f(x):
        if x.shape[0] < 10:
            return x * 2
        return x + 1

    f(torch.ones(5))
    f(torch.ones(20))


def specialized_by_equality():
    @graph(dynamic=True)
    def f(m, y):
        if m.shape[0] == 33:
            return y * 2
        return y + m.shape[0]

    f(torch.ones(33), torch.ones(4))
    f(torch.ones(7), torch.ones(4))


def unbacked_check():
    @graph(fullgraph=True)
    def f(x, y):
        torch._check(x.shape[0] == y.shape[0])
        return x + y

    x, y = torch.ones(5), torch.ones(5)
    torch._dynamo.decorators.mark_unbacked(x, 0)
    torch._dynamo.decorators.mark_unbacked(y, 0)
    f(x, y)


def four_sizes(dynamic):
    h = graph(lambda x: torch.relu(x) + 1, dynamic=dynamic)
    for size in (3, 4, 5, 6):
        h(torch.ones(size, 2))


def four_sizes_static():
    four_sizes(False)


def four_sizes_dynamic():
    four_sizes(True)


def four_sizes_automatic():
    four_sizes(None)


def size_equals_or_bounded():
    @graph(dynamic=True)
    def f(x):
        if x.size()[0] == 10:
            return x * 10
        if x.size()[0] <= 30:
            return x * 200
        return x

    for size in (10, 20, 40):
        f(torch.ones(size))


def float_constant():
    h = graph(lambda x, scale: x * scale if scale < 5 else x)
    for scale in (1.5, 2.5, 3.5):
        h(x, scale)


def learning_rate():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    @graph
    def step():
        optimizer.step()
        scheduler.step()

    model(torch.ones(4)).sum().backward()
    for _ in range(3):
        step()


def breaks_on_open():
    @graph
    def f(x):
        y = x + 1
        with open(__file__) as file:  # noqa: PTH123
            text = file.read()
        return y * len(text)

    f(x)


def breaks_on_item():
    @graph
    def f(x):
        return x * x.sum().item()

    f(x)


def breaks_on_data():
    @graph
    def f(x):
        if x.sum() > 3:
            return x * 2
        return x - 1

    f(x)


def breaks_on_print():
    @graph
    def f(x):
        y = x + 1
        print("y is made")
        return y * 2

    f(x)


def wrong_arguments():
    graph(lambda x, y: torch.matmul(x, y), fullgraph=True)(torch.ones(2, 3), torch.ones(4, 5))


def marked_dynamic_violated():
    a = torch.ones(10)
    torch._dynamo.mark_dynamic(a, 0)
    graph(lambda x: x if x.shape[0] == 10 else x + 1)(a)


def duck_shaped():
    h = graph(lambda x, y: (x + 1, y + 1), dynamic=True)
    h(torch.ones(5), torch.ones(5))
    h(torch.ones(5), torch.ones(6))


def size_one():
    h = graph(lambda x: x + 1, dynamic=True)
    h(torch.ones(1, 4))
    h(torch.ones(5, 4))


def static_parameter():
    h = graph(lambda w, x: w.sum() + x)
    for size in (3, 4, 5):
        h(torch.nn.Parameter(torch.ones(size)), torch.ones(()))


def static_module_attribute():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            return x + self.steps

    h = graph(Counter())
    for _ in range(3):
        h(x)


def static_module_size():
    class Buffered(torch.nn.Module):
        def forward(self, x):
            return x + self.cache.sum()

    model = Buffered()
    h = graph(model)
    for size in (3, 4, 5):
        model.cache = torch.ones(size)
        h(x)


def module_per_layer():
    class Layer(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.linear = torch.nn.Linear(size, size)

        def forward(self, x):
            return torch.relu(self.linear(x))

    layers = [Layer(size) for size in (4, 5, 6, 7)]
    for layer in layers:
        layer.compile(dynamic=False, backend="eager")
        layer(torch.ones(2, layer.linear.in_features))


def higher_order():
    def f(x):
        return torch.cond(x.sum() > 3, lambda x: x.sin(), lambda x: x.cos(), (x,))

    torch.compile(f)(x)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
