"""What a script exports is recorded, and stand-ins run the model in its place; with real torch."""

from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_recorded

SCRIPT = """
import torch

class Model(torch.nn.Module):
    def __init__(self, fails):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.fails = fails

    def forward(self, x):
        if self.fails and type(x) is not torch.Tensor:  # not so where Dynamo traces
            raise RuntimeError("cannot be exported")
        return torch.relu(self.linear(x))

x = torch.ones(3, 2)
exported = torch.export.export(Model(False), (x,), strict=False)
exported.run_decompositions()
print("exported")
size = torch.export.Dim("size")
broken = torch.export.export(Model(True), (x,), dynamic_shapes={"x": {0: size}}, strict=False)
print(broken.module()(x).shape)
print(broken.graph_signature)
print("not reached")
"""


@pytest.mark.torch
@pytest.mark.slow
def test_each_entry_and_its_graph_are_recorded(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run_forked(oracle, tmp_path, SCRIPT, "capture", {}, status=1) == "exported\n"
    (recorded,) = read_recorded(tmp_path / "probe")
    assert recorded.problems == ()
    calls = [event.settings["backend"] for event in recorded.events if event.event == "compile-call"]
    assert calls == ["export", "export-decomposed", "export"]
    assert recorded.compile_settings()["backend"] == "export"
    decomposed, traced = recorded.graphs
    assert decomposed.backend.name == "export-decomposed"
    assert "torch.ops.aten.linear" in decomposed.code
    assert all(constant.parameter for constant in decomposed.constants.values())
    assert traced.backend.name == "export"
    assert "torch.relu" in traced.code
    tensors = [record for record in traced.inputs if record.kind == "tensor"]
    (x,) = (record for record in tensors if not record.parameter)  # the order of the inputs differs among versions
    assert len(tensors) == 3 and x.symbols[0] != "3"


@pytest.mark.torch
@pytest.mark.slow
def test_without_the_compiler_the_model_itself_runs(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run_forked(oracle, tmp_path, SCRIPT, "override", {"eager": True}) == "exported\ntorch.Size([3, 2])\n"


PACKAGED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x, y):
        return x * self.scale + y

one, other = torch.zeros(2, 3), torch.ones(3, 2).t()
path = torch._inductor.aoti_compile_and_package(torch.export.export(Model(), (one, one)))
package = torch._inductor.aoti_load_package(path)
package(one, other)
print(type(package).__name__)
"""


@pytest.mark.torch
@pytest.mark.slow
def test_calls_of_a_package_are_calls_of_its_graph(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run_forked(oracle, tmp_path, PACKAGED, "capture", {}) == "AOTICompiledModel\n"
    (recorded,) = read_recorded(tmp_path / "probe")
    (graph,) = recorded.graphs
    (first, at_compile), (second, called) = recorded.calls_of([graph.number])
    assert first == second == graph.number and at_compile == graph.inputs
    assert [tuple(record.stride) for record in called] == [(3, 1), (1, 2)]
    assert recorded.suspects() == []


@pytest.mark.torch
@pytest.mark.slow
def test_a_call_that_fits_two_graphs_is_of_neither(oracle: ProgramOracle, tmp_path: Path) -> None:
    compile_again = "torch._inductor.aoti_compile_and_package(torch.export.export(Model(), (other, one)))\n"
    script = PACKAGED.replace("package(one, other)", compile_again + "package(one, other)")
    assert run_forked(oracle, tmp_path, script, "capture", {}) == "AOTICompiledModel\n"
    (recorded,) = read_recorded(tmp_path / "probe")
    assert [len(recorded.calls_of([graph.number])) for graph in recorded.graphs] == [1, 1]
