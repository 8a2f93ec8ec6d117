"""Graphs from other users of Dynamo are recorded, and are programs that fail alone as the script does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from repro_kit.failure.failure import Status
from repro_kit.graph import parse
from repro_kit.graph.program_text import render
from repro_kit.graph.reading.from_graph import Variant, build_program
from repro_kit.graph.reading.graph_record import GraphRecord
from repro_kit.recipe import Recipe
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_recorded
from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import launch

pytestmark = [pytest.mark.torch, pytest.mark.slow]

#: A backend that lacks the operator which each of the graphs below has, in a sub-graph too.
BACKEND = """
def backend(gm, example_inputs):
    lacking = {"relu", "addcdiv_", "_foreach_addcdiv_", "aten_mul_Tensor"}
    for module in gm.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
            if node.op != "placeholder" and name.replace(".", "_") in lacking:
                raise NotImplementedError(f"no kernel for {name}")
    return gm.forward
"""
SCRIPT = f"""
import contextlib
import torch
{BACKEND}

def optimizer():
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.full((3,), 0.5)
    torch.compile(torch.optim.Adam([parameter]).step, backend=backend)()

def transform():
    gradient = torch.func.grad(lambda w, x: torch.relu(x @ w).sin().sum())
    torch.compile(torch.func.vmap(gradient, in_dims=(None, 0)), backend=backend)(torch.ones(4), torch.ones(2, 3, 4))

def region():
    block = torch.compiler.nested_compile_region(lambda x, w: torch.relu(x @ w).cos())
    torch.compile(lambda x, w: block(block(x, w), w) + 1, backend=backend)(torch.ones(4, 4), torch.ones(4, 4))

for case in (optimizer, transform, region):
    with contextlib.suppress(Exception):
        case()
"""


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[GraphRecord, Path]]:
    """The recorded graph of each neighbour, and the directory of its values."""
    directory = tmp_path_factory.mktemp("neighbours")
    script = directory / "script.py"
    script.write_text(SCRIPT)
    env = probe_environment(os.environ, "capture", directory / "probe", 120, {})
    outputs = {name: directory / f"{name}.txt" for name in ("stdout", "stderr")}
    ran = launch([sys.executable, str(script)], cwd=directory, env=env, timeout=120, **outputs)
    assert ran.exit_status == 0, outputs["stderr"].read_text()
    (recorded,) = read_recorded(directory / "probe")
    assert recorded.problems == ()
    assert [graph.problem for graph in recorded.graphs] == [None, None, None]
    names = ("optimizer", "transform", "region")
    return {name: (graph, directory / "probe" / "inputs") for name, graph in zip(names, recorded.graphs, strict=True)}


@pytest.mark.parametrize("name", ["optimizer", "transform", "region"])
def test_the_graph_fails_alone(name: str, graphs: dict[str, tuple[GraphRecord, Path]], oracle: ProgramOracle) -> None:
    graph, inputs = graphs[name]
    recipe = Recipe(backend="backend", grad_mode=graph.recipe["grad_mode"])
    text = render(parse(build_program(graph, recipe, Variant(preamble=BACKEND))))
    (verdict,) = oracle.check([text], inputs, timeout=120)
    assert verdict.status is Status.FAIL, verdict
    assert verdict.failure is not None
    assert "no kernel for" in verdict.failure.exceptions[-1].message
