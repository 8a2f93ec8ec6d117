"""What surrounds a compiled call is recorded with its graph."""

import os
import sys
from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_findings, read_recorded
from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import launch

MODES = """
from torch.overrides import TorchFunctionMode

class Scaled(TorchFunctionMode):
    def __init__(self, factor):
        self.factor = factor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

class Plain(Scaled):
    def __init__(self):
        super().__init__(1)
"""

SCRIPT = """
import contextlib
import torch
from modes import Plain, Scaled

torch.use_deterministic_algorithms(True)
torch.backends.mkldnn.enabled = False

class Offload:
    def __init__(self, dtype):
        self.dtype = dtype

    def pack(self, tensor):
        return tensor.to(self.dtype)

@torch.compile(backend="eager")
def f(x):
    return x.sin()

def train(x, dtype, factor):
    class Local(Plain):  # no other file can name it
        pass

    Local().__enter__()
    offload = Offload(dtype)
    with torch.device("cpu"), torch.autograd.graph.saved_tensors_hooks(offload.pack, lambda it: it):
        with contextlib.suppress(ValueError), torch.no_grad(), contextlib.ExitStack() as stack:
            stack.enter_context(Scaled(factor * 2))
            f(x)
    with contextlib.nullcontext():
        pass

Plain().__enter__()
train(torch.ones(3, requires_grad=True), torch.float64, 2)
"""


@pytest.mark.torch
@pytest.mark.slow
def test_with_blocks_and_switches_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "modes.py").write_text(MODES)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = launch(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=probe_environment(os.environ, "capture", tmp_path / "probe", 120),
        timeout=120,
        stdout=tmp_path / "out.txt",
        stderr=tmp_path / "err.txt",
    )
    assert ran.ok, (tmp_path / "err.txt").read_text()
    assert read_findings(tmp_path / "probe").problems == ()
    (recorded,) = read_recorded(tmp_path / "probe")
    (graph,) = recorded.graphs
    assert graph.problem is None
    assert graph.recipe["grad_mode"] == "no_grad"
    assert graph.recipe["device"] == "cpu"
    assert graph.recipe["compiled_autograd"] is False
    assert graph.recipe["switches"] == [
        "torch.use_deterministic_algorithms(True, warn_only=False)",
        "torch.backends.mkldnn.enabled = False",
    ]
    here, modes = str(script), str(tmp_path / "modes.py")
    hooks = "torch.autograd.graph.saved_tensors_hooks(Offload(torch.float64).pack, lambda it: it)"
    found = [(it["expression"], it["names"]) for it in graph.recipe["regions"]]
    assert found == [
        ("Plain()", {"Plain": modes}),
        (hooks, {"Offload": here, "torch": here}),
        ("contextlib.suppress(ValueError)", {"contextlib": here}),
        ("contextlib.ExitStack()", {"contextlib": here}),
        ("Scaled(2 * 2)", {"Scaled": modes}),
    ]


COUNTED = """
import torch

graphs = []
def counting(graph, example_inputs):
    graphs.append(graph)
    return graph

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(300, 300) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""

UNDER_DDP = f"""
{COUNTED}
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.compile(DistributedDataParallel(Model(), bucket_cap_mb=1), backend=counting)(torch.ones(2, 300))
dist.destroy_process_group()
print(len(graphs))
"""

#: The statement that was recorded stands for the process group and for DistributedDataParallel.
WITHOUT_DDP = f"""
{COUNTED}
{{switch}}
torch.compile(Model(), backend=counting)(torch.ones(2, 300))
print(len(graphs))
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_program_of_a_model_under_ddp_is_split_as_the_model_is(oracle: ProgramOracle, tmp_path: Path) -> None:
    def graphs_of(script: str, name: str) -> int:
        (tmp_path / name).mkdir()
        # gloo may print a line before
        return int(run_forked(oracle, tmp_path / name, script, "capture", {}).split()[-1])

    split = graphs_of(UNDER_DDP, "under")
    assert split > 1
    (recorded,) = read_recorded(tmp_path / "under" / "probe")
    (graph,) = recorded.graphs
    (switch,) = graph.recipe["switches"]
    assert "DistributedDataParallel" in switch and str(2**20) in switch
    assert graphs_of(WITHOUT_DDP.format(switch=switch), "alone") == split
    assert graphs_of(WITHOUT_DDP.format(switch=""), "plain") == 1
