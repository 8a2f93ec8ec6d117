"""What insights tell of: breaks, recompiles, specializations, dynamic shapes; one function each.

Run as ``python insight_cases.py NAME``, or ``python insight_cases.py --each DIRECTORY`` for all, each in a forked child
with a trace directory of its own.
Recorded traces name the lines of this file.
"""

from __future__ import annotations

import functools
import os

import torch
from cases_in_forks import run

x = torch.ones(8, 8)

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


def _four_sizes(dynamic):
    h = graph(lambda x: torch.relu(x) + 1, dynamic=dynamic)
    for size in (3, 4, 5, 6):
        h(torch.ones(size, 2))


def four_sizes_static():
    _four_sizes(False)


def four_sizes_dynamic():
    _four_sizes(True)


def four_sizes_automatic():
    _four_sizes(None)


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


def kernels():
    torch._inductor.config.trace.provenance_tracking_level = 1  # what INDUCTOR_PROVENANCE=1 sets

    @torch.compile
    def f(x, w):
        y = torch.relu(x) * 2
        z = y @ w
        return z.sin().sum()

    f(torch.ones(8, 8), torch.ones(8, 8, requires_grad=True)).backward()


def hit_limit():
    torch._dynamo.config.recompile_limit = 2
    h = graph(lambda x: x * 2, dynamic=False)
    for size in (2, 3, 4, 5):
        h(torch.ones(size))


def near_limit():
    h = graph(lambda x, mode: x * 2 if mode else x)
    for mode in "abcdefg":
        h(x, mode)


def breaks_in_a_loop():
    def inner(x):
        print("y is made")
        return x + 1

    @graph
    def f(x):
        for _ in range(2):
            x = inner(x) * 2
        return x

    f(x)


def pgo_warm():
    torch.compiler.config.job_id = "insight_cases"
    h = graph(lambda x: torch.relu(x) + 1)
    child = os.fork()
    if not child:  # the run before, which learns that the size changes
        torch._logging._internal.LOG_TRACE_HANDLER.root_dir += "_cold"
        h(torch.ones(3, 2))
        h(torch.ones(4, 2))
        os._exit(0)
    os.waitpid(child, 0)
    h(torch.ones(5, 2))


CASES = {
    name: case
    for name, case in list(globals().items())
    if getattr(case, "__module__", "") == __name__ and name[0] != "_" and name != "graph"
}

if __name__ == "__main__":
    run(CASES, warm=lambda: graph(lambda x: x + 1)(x))
