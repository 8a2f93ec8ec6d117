"""Graphs are recorded with the backend that the script chose; with real torch."""

from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_recorded

AHEAD = """
import contextlib
import torch
import torch._inductor.compile_fx

if hasattr(torch._dynamo.config, "enable_aot_compile"):  # an older torch asks for it
    torch._dynamo.config.enable_aot_compile = True

def backend(gm, example_inputs):
    raise RuntimeError("planted")

def graph(x):
    return torch.relu(x) + 1

x = torch.ones(3, 2)
torch._inductor.compile_fx.compile_fx = lambda gm, example_inputs, **_: backend(gm, example_inputs)
for chosen in (backend, "inductor"):
    with contextlib.suppress(RuntimeError):
        torch.compile(graph, fullgraph=True, backend=chosen, dynamic=True).aot_compile(((x,), {}))
"""


@pytest.mark.torch
def test_a_graph_that_is_compiled_ahead_has_the_scripts_backend(oracle: ProgramOracle, tmp_path: Path) -> None:
    pytest.importorskip("torch._dynamo.aot_compile")
    run_forked(oracle, tmp_path, AHEAD, "capture", {})
    (recorded,) = read_recorded(tmp_path / "probe")
    own, inductor = (graph.backend for graph in recorded.graphs)
    assert (own.name, Path(own.file or "").name, own.dynamic) == ("backend", "script.py", True)
    assert (inductor.name, inductor.dynamic) == ("inductor", True)


BACKWARDS = """
import torch

def several(x):
    return x * 2, x.sin()

x = torch.ones(3, requires_grad=True)
first, second = torch.compile(several, backend="aot_eager")(x)
first.sum().backward()  # the gradient of the second result is None
assert x.grad.tolist() == [2.0] * 3
single = torch.compile(lambda x: x * 2, backend="eager")(x)
single.backward(torch.ones(3).to_sparse())
"""


@pytest.mark.torch
def test_a_backward_goes_on_whatever_its_gradients_are(oracle: ProgramOracle, tmp_path: Path) -> None:
    run_forked(oracle, tmp_path, BACKWARDS, "capture", {})
    (recorded,) = read_recorded(tmp_path / "probe")
    begun = [(event.graph, event.uniform) for event in recorded.events if event.event == "backward-begin"]
    assert begun == [(0, True), (1, False)]
