"""Ways in which torch.compile fails, or only seems to; one function each. Run as ``python torch_cases.py NAME``."""

from __future__ import annotations

import faulthandler
import os

import torch
import torch._inductor.config
from cases_in_forks import run
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


CASES = {
    name: case
    for name, case in list(globals().items())
    if getattr(case, "__module__", "") == __name__ and name not in ("f", "broken")
}

if __name__ == "__main__":
    run(CASES, warm=lambda: torch.compile(f)(x))
