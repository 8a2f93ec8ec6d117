"""Real-sized graphs with one wrong operator each: does `diverge` name it?

A model is traced by Dynamo. A backend of the program makes the result of one operator wrong, or the gradient that it
gives, and hands the graph to Inductor. The query `diverge` must name that operator alone.

A script whose model makes several graphs goes through `repro-kit capture`, which must name the graph and the line.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from repro_kit.runner.program_oracle import ProgramOracle
from samples.verdict_cases import MODELS

_WRONG = 1.05  # the factor of the wrong operator
_SPOILED_BACKWARD = """
class Spoiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None
def spoiled(x, factor):
    return Spoiled.apply(x, factor)
"""
_PLANTED = """
def mine(gm, example_inputs):
    from torch._inductor.compile_fx import compile_fx
    chosen = next(node for node in gm.graph.nodes if node.name == {name!r})
    with gm.graph.inserting_after(chosen):
        wrong = gm.graph.call_function({spoil}, (chosen, {factor}))
    chosen.replace_all_uses_with(wrong, delete_user_cb=lambda user: user is not wrong)
    gm.recompile()
    return compile_fx(gm, example_inputs)
"""
#: Operators that compute; a plant at a view or a cast would be no operator of its own.
_COMPUTE = {
    *("linear", "gelu", "layer_norm", "scaled_dot_product_attention", "add", "mul", "sub", "neg", "matmul", "pow"),
    *("conv2d", "batch_norm", "hardswish", "rsqrt", "mean", "sigmoid", "tanh", "embedding", "group_norm", "mish"),
    *("softmax", "silu", "relu", "adaptive_avg_pool2d", "interpolate"),
}


@dataclass(frozen=True)
class Graph:
    """A traced model: the statements of its graph, and the names of the calls in order."""

    parameters: str
    body: str
    names: tuple[str, ...]
    operators: tuple[str, ...]
    trained: tuple[bool, ...]  # for each input, whether it has a gradient


def traced(script: str, inputs: Path) -> Graph:
    """Run `script` with a backend that keeps the graph; its inputs are saved in the directory `inputs`."""
    kept: list[Graph] = []

    def keep(module: torch.fx.GraphModule, arguments: Any) -> Any:
        function = next(node for node in ast.parse(module.code).body if isinstance(node, ast.FunctionDef))
        names = [argument.arg for argument in function.args.args[1:]]
        body = [node for node in function.body if not (isinstance(node, ast.Assign) and _is_none(node.value))]
        calls = [node for node in module.graph.nodes if node.op in ("call_function", "call_method")]
        operators = [getattr(node.target, "__name__", str(node.target)).rsplit(".", 1)[-1] for node in calls]
        trained = tuple(argument.requires_grad for argument in arguments)
        text = "\n".join(ast.unparse(node) for node in body)
        kept.append(Graph(", ".join(names), text, tuple(node.name for node in calls), tuple(operators), trained))
        torch.save([argument.detach() for argument in arguments], inputs / "all.pt")
        return module.forward

    torch._dynamo.reset()
    torch._dynamo.config.specialize_int = True
    exec(script.replace("torch.compile(", "COMPILE("), {"COMPILE": lambda model: torch.compile(model, backend=keep)})
    return kept[0]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def program(graph: Graph, inputs: Path, at: int, *, backward: bool) -> str:
    """The program of `graph` in which the call number `at` is wrong, or the gradient that the call gives."""
    recipe = {"backend": "mine", **({"backward": "randn"} if backward else {"grad_mode": "no_grad"})}
    return "\n".join(
        [
            "# repro-kit program 1",
            "import torch",
            "from torch import device, inf, nan",
            f"RECIPE = {recipe!r}",
            _SPOILED_BACKWARD,
            _PLANTED.format(name=graph.names[at], factor=_WRONG, spoil="spoiled" if backward else "torch.mul"),
            f"def graph({graph.parameters}):",
            textwrap.indent(graph.body, "    "),
            "def calls():",
            f"    stored = torch.load({str(inputs / 'all.pt')!r})",
            f"    return [tuple(x.requires_grad_(trained) for x, trained in zip(stored, {graph.trained!r}))]",
            "",
        ]
    )


def chosen(graph: Graph, count: int) -> Iterator[int]:
    """`count` calls that compute, spread over the graph."""
    computing = [at for at, operator in enumerate(graph.operators) if operator in _COMPUTE]
    yield from (computing[(2 * number + 1) * len(computing) // (2 * count)] for number in range(count))


def planted(each: int, *, backward: bool) -> None:
    """Print one row for every plant; `backward`: the gradients are wrong."""
    print("| model (calls) | wrong operator | named | seconds |\n|---|---|---|---|", flush=True)
    right = made = 0
    with ProgramOracle(sys.executable) as oracle, tempfile.TemporaryDirectory() as directory:
        for number, (name, script) in enumerate(MODELS.items()):
            inputs = Path(directory) / str(number)
            inputs.mkdir()
            graph = traced(script, inputs)
            for at in chosen(graph, each):
                started = time.monotonic()
                text = program(graph, inputs, at, backward=backward)
                divergence = oracle.diverge(text, None, timeout=600)
                named = divergence.names
                made += 1
                right += named == (graph.names[at],) and divergence.backward == backward
                words = ", ".join(named) or "nothing"
                took = time.monotonic() - started
                print(f"| {name} ({len(graph.names)}) | {graph.names[at]} | {words} | {took:.0f} |", flush=True)
    print(f"\n{right} of {made} wrong operators are named.")


#: A model of three graphs. The backend makes one operator wrong, in the forward or in the backward.
_SEVERAL_GRAPHS = """
import copy

import torch
from torch import nn
from torch.nn import functional as F

WRONG, BACKWARD = {wrong!r}, {backward}


class Spoiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone() if BACKWARD else x * 1.05

    @staticmethod
    def backward(ctx, grad):
        return grad * 1.05 if BACKWARD else grad


def spoiled(x):
    return Spoiled.apply(x)


def mine(gm, example_inputs):
    from torch._inductor.compile_fx import compile_fx
    for node in list(gm.graph.nodes):
        if getattr(node.target, "__name__", "") == WRONG:
            with gm.graph.inserting_after(node):
                wrong = gm.graph.call_function(spoiled, (node,))
            node.replace_all_uses_with(wrong, delete_user_cb=lambda user: user is not wrong)
    gm.recompile()
    return compile_fx(gm, example_inputs)


class Net(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gate, self.mix, self.head = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        chances = torch.softmax(q @ k.mT / 4, -1)
        x = x + self.out((chances @ v).transpose(1, 2).flatten(2))
        torch._dynamo.graph_break()
        y = self.up(self.norms[1](x))
        y = F.gelu(y)
        x = x + self.down(y)
        torch._dynamo.graph_break()
        y = self.norms[2](x)
        x = x + self.mix(y) * torch.sigmoid(self.gate(y))
        return self.head(x.mean(1))


torch.manual_seed(0)
net, x = Net(), torch.randn(4, 16, 64)
compiled = copy.deepcopy(net)
results = net(x), torch.compile(compiled, backend=mine)(x)
torch.testing.assert_close(results[1], results[0])
for result in results:
    result.square().sum().backward()
for one, two in zip(net.parameters(), compiled.parameters()):
    torch.testing.assert_close(two.grad, one.grad)
"""


def across_graphs() -> None:
    """Print one row for every operator that is wrong in one of several graphs of a script."""
    print("| wrong operator (graph) | in the | graph, line named | seconds |\n|---|---|---|---|", flush=True)
    for graph, operator in enumerate(("softmax", "gelu", "sigmoid")):
        for backward in (False, True):
            script = _SEVERAL_GRAPHS.format(wrong=operator, backward=backward).lstrip()
            line = next(n for n, text in enumerate(script.splitlines(), 1) if f".{operator}(" in text)
            with tempfile.TemporaryDirectory() as directory:
                started = time.monotonic()
                captured = _captured(Path(directory), script)
                took = time.monotonic() - started
            firsts = [f"{captured['graph']}, line {first['line'].rpartition(':')[2]}" for first in captured["wrong"]]
            right = [first.get("backward", False) for first in captured["wrong"]] == [backward]
            words = f"{', '.join(firsts) or 'nothing'}{'' if right else ' (the other direction)'}"
            direction = "backward" if backward else "forward"
            print(f"| {operator} ({graph}, line {line}) | {direction} | {words} | {took:.0f} |", flush=True)


def _captured(directory: Path, script: str) -> Any:
    """`capture.json` of `script`, which is written to `directory`."""
    (directory / "script.py").write_text(script, encoding="utf-8")
    words = [sys.executable, "-m", "repro_kit", "capture", "script.py"]
    subprocess.run(words, cwd=directory, capture_output=True, check=True)
    return json.loads((directory / "script.repro" / "capture" / "capture.json").read_text(encoding="utf-8"))
