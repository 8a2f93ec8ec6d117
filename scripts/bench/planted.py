"""Real-sized graphs with one wrong operator each: does `diverge` name it?

A model is traced by Dynamo. A backend of the program makes the result of one operator wrong, and hands the graph to
Inductor. The query compiles the graph with all values as outputs, and names those that differ although their inputs
agree.
"""

from __future__ import annotations

import ast
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
from verdict_cases import MODELS

_WRONG = 1.05  # the factor of the wrong operator
_PLANTED = """
def mine(gm, example_inputs):
    from torch._inductor.compile_fx import compile_fx
    calls = [node for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    chosen = calls[{at}]
    with gm.graph.inserting_after(chosen):
        wrong = gm.graph.call_function(torch.mul, (chosen, {factor}))
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


def traced(script: str, inputs: Path) -> Graph:
    """Run `script` with a backend that keeps the graph; its inputs are saved in the directory `inputs`."""
    kept: list[Graph] = []

    def keep(module: torch.fx.GraphModule, arguments: Any) -> Any:
        function = next(node for node in ast.parse(module.code).body if isinstance(node, ast.FunctionDef))
        names = [argument.arg for argument in function.args.args[1:]]
        body = [node for node in function.body if not (isinstance(node, ast.Assign) and _is_none(node.value))]
        calls = [node for node in module.graph.nodes if node.op in ("call_function", "call_method")]
        operators = [getattr(node.target, "__name__", str(node.target)).rsplit(".", 1)[-1] for node in calls]
        text = "\n".join(ast.unparse(node) for node in body)
        kept.append(Graph(", ".join(names), text, tuple(node.name for node in calls), tuple(operators)))
        torch.save([argument.detach() for argument in arguments], inputs / "all.pt")
        return module.forward

    torch._dynamo.reset()
    torch._dynamo.config.specialize_int = True
    exec(script.replace("torch.compile(", "COMPILE("), {"COMPILE": lambda model: torch.compile(model, backend=keep)})
    return kept[0]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def program(graph: Graph, inputs: Path, at: int) -> str:
    """The program of `graph` in which the call number `at` is wrong."""
    return "\n".join(
        [
            "# repro-kit program 1",
            "import torch",
            "from torch import device, inf, nan",
            "RECIPE = {'backend': 'mine', 'grad_mode': 'no_grad'}",
            _PLANTED.format(at=at, factor=_WRONG),
            f"def graph({graph.parameters}):",
            textwrap.indent(graph.body, "    "),
            "def calls():",
            f"    return [tuple(torch.load({str(inputs / 'all.pt')!r}))]",
            "",
        ]
    )


def chosen(graph: Graph, count: int) -> Iterator[int]:
    """`count` calls that compute, spread over the graph."""
    computing = [at for at, operator in enumerate(graph.operators) if operator in _COMPUTE]
    yield from (computing[(2 * number + 1) * len(computing) // (2 * count)] for number in range(count))


def planted(each: int) -> None:
    """Print one row for every plant."""
    print("| model (calls) | wrong operator | named | seconds |\n|---|---|---|---|", flush=True)
    right = made = 0
    with ProgramOracle(sys.executable) as oracle, tempfile.TemporaryDirectory() as directory:
        for number, (name, script) in enumerate(MODELS.items()):
            inputs = Path(directory) / str(number)
            inputs.mkdir()
            graph = traced(script, inputs)
            for at in chosen(graph, each):
                started = time.monotonic()
                named = oracle.diverge(program(graph, inputs, at), None, timeout=300)
                made += 1
                right += named == [graph.names[at]]
                words = ", ".join(named) or "nothing"
                took = time.monotonic() - started
                print(f"| {name} ({len(graph.names)}) | {graph.names[at]} | {words} | {took:.0f} |", flush=True)
    print(f"\n{right} of {made} wrong operators are named.")
