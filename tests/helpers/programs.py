"""Programs that fail on real torch, one of each kind, and the signature each must keep."""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature

HEAD = "# repro-kit program 1\nimport pathlib\n\nimport torch\nfrom torch import device, inf, nan\n\n"

RELU = """
def graph(x):
    relu = torch.relu(x)
    return (relu,)


def calls():
    x = torch.randn(4, 4)
    return [(x,)]
"""

# A lowering that misbehaves as `ACTION` says; `relu` falls back to it.
LOWERING = """
import os
import time

from torch._inductor.lowering import lowerings


def planted(x):
    ACTION


lowerings[torch.ops.aten.relu.default] = planted
"""


@dataclass(frozen=True)
class Failing:
    """One failing program."""

    name: str
    text: str
    signature: Signature
    fast: bool = True  # no C++ compiler, no wait


def _program(recipe: str, body: str) -> str:
    return f"{HEAD}RECIPE = {recipe}\n\n{body}"


FAILING = (
    Failing(
        "compile_error",
        _program(
            "{'config': {'inductor.cpp.inject_relu_bug_TESTING_ONLY': 'compile_error'}, 'graph_caches': False}", RELU
        ),
        Signature(Kind.COMPILE_ERROR, ("InductorError", "CppCompileError"), "'compile' was not declared in this scope"),
        fast=False,
    ),
    Failing(
        "accuracy",
        _program("{'config': {'inductor.cpp.inject_relu_bug_TESTING_ONLY': 'accuracy'}, 'threads': 1}", RELU),
        Signature(Kind.ACCURACY, difference="value", magnitude=1.0),
        fast=False,
    ),
    Failing(
        "backend_error",
        _program("{'backend': 'relu_compile_error_TESTING_ONLY'}", RELU),
        Signature(Kind.COMPILE_ERROR, ("BackendCompilerFailed", "ReluCompileError")),
    ),
    Failing(
        "user_backend",
        _program(
            "{'backend': 'broken', 'dynamic': True, 'fullgraph': True}",
            '\ndef broken(gm, example_inputs):\n    """One of\nmy own."""\n    raise ValueError("no such op")\n\n'
            + RELU,
        ),
        Signature(Kind.COMPILE_ERROR, ("BackendCompilerFailed", "ValueError"), "no such op"),
    ),
    Failing(
        "crash",
        _program("{}", LOWERING.replace("ACTION", "os.abort()") + RELU),
        Signature(Kind.CRASH, signal="SIGABRT"),
    ),
    Failing(
        "hang",
        _program("{}", LOWERING.replace("ACTION", "while True: time.sleep(1)") + RELU),
        Signature(Kind.TIMEOUT, frames=("graph.py:call_function",)),
        fast=False,
    ),
    Failing(
        "backward_accuracy",
        _program(
            "{'backend': 'negated', 'backward': 'randn', 'seed': 3, 'autocast': {'dtype': 'bfloat16'}}",
            """
from torch._dynamo.backends.common import aot_autograd


def negate(gm, example_inputs):
    def run(*arguments):
        return [-it if isinstance(it, torch.Tensor) else it for it in gm(*arguments)]

    run._boxed_call = False
    return run


def keep(gm, example_inputs):
    return gm.forward


negated = aot_autograd(fw_compiler=keep, bw_compiler=negate)


def graph(x, w):
    mm = x @ w
    tanh = torch.tanh(mm)
    return (tanh, mm)


def calls():
    x = torch.randn(4, 3)
    w = torch.nn.Parameter(torch.randn(3, 2))
    return [(x, w)]
""",
        ),
        Signature(Kind.ACCURACY, difference="value", magnitude=1.0),
    ),
    Failing(
        "several_calls",
        _program(
            "{'backend': 'stale', 'dynamic': True}",
            """
seen = {}


def stale(gm, example_inputs):
    def run(*arguments):
        results = gm.forward(*arguments)
        return seen.setdefault("first", results) if results[0].shape == seen.get("first", results)[0].shape else results

    return run


def graph(x, n):
    add = x + n
    add_ = x.mul_(2)
    return (add,)


def calls():
    x = torch.randn(4, 4)
    y = torch.randn(6, 4)
    z = torch.randn(4, 4)
    return [(x, 1), (y, 1), (z, 1)]
""",
        ),
        Signature(Kind.ACCURACY, difference="value", magnitude=1.0),
    ),
    Failing(
        "input_not_written",
        _program(
            "{'backend': 'forgetful'}",
            """
def forgetful(gm, example_inputs):
    return lambda *arguments: gm.forward(*(it.clone() for it in arguments))


def graph(x):
    view = x.view(4, 4)
    view += 1
    return (view,)


def calls():
    x = torch.randn(16)
    return [(x,)]
""",
        ),
        Signature(Kind.ACCURACY, difference="value", magnitude=1.0),
    ),
    Failing(
        "dynamic_only",
        _program(
            "{'backend': 'no_symbols', 'dynamic': None}",
            """
def no_symbols(gm, example_inputs):
    if any(isinstance(it, torch.SymInt) for it in example_inputs):
        raise RuntimeError("cannot do symbols")
    return gm.forward


def graph(x):
    size = x.size(0)
    mul = x * size
    return (mul,)


def calls():
    x = torch.randn(5, 3)
    torch._dynamo.mark_dynamic(x, 0)
    return [(x,)]
""",
        ),
        Signature(Kind.COMPILE_ERROR, ("BackendCompilerFailed", "RuntimeError"), "cannot do symbols"),
    ),
)
