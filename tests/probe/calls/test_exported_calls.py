"""Exported programs are compared with their models, and the script's own values stay as they are."""

from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.failure.compiled_calls import wrong_result
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import Findings, read_findings

MODELS = """
import io
import threading
import torch
from torch import nn
from torch.export import Dim, export

class Reassigns(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = self.mean + x.mean(0)
        return x - self.mean

class Trains(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))

    def forward(self, x):
        return {"out": self.layers(x)}

called = []

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x, *, scale=2):
        self.calls += 1
        called.append(self.calls)
        self.steps.add_(1)
        return x * self.steps * (scale if self.calls < 4 else 1), x.shape[0]

class Writes(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1

class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        return x + 1

x, batch = torch.randn(3, 4), Dim("batch", min=2)
shapes = {"x": {0: batch}}
"""

HEALTHY = """
export(Trains(), (x,), dynamic_shapes=shapes, strict=False).run_decompositions().module()(x)
export(Trains().eval(), (x,), dynamic_shapes=shapes, strict=True).run_decompositions().module()(x[:2])
counts = export(Counts(), (x,), {"scale": 3}, strict=False).module()
calls = list(called)
for _ in range(5):
    counts(x, scale=3)
assert called == calls, "the model in eager leaves the script's own state as it was"
module = export(Reassigns(), (x,), dynamic_shapes=shapes, strict=False).module()
optimizer = torch.optim.SGD(export(nn.Linear(4, 4), (x,), strict=False).module().parameters(), lr=0.1)
module(x)
before = module.mean.clone()
module.load_state_dict({"mean": torch.ones(4)})
module(x[:2])
export(Locked(), (x,), strict=False)
given = x.clone()
export(Writes(), (given,), strict=False).module()(given)
print(torch.equal(given, x * 2), bool(torch.isclose(before, x.mean(0)).all()), counts.steps.item())
"""

LOSES = """
try:
    export(Reassigns(), (x,), strict=True).module()(x)
except AssertionError as error:
    assert "Mutating module attribute" in str(error)
    print("refused")
"""

CHANGED_LATER = """
program = export(Writes(), (x.clone(),))
file = io.BytesIO()
torch.export.save(program, file)
file.seek(0)
module = torch.export.load(file).module()
multiply = next(node for node in module.graph.nodes if node.target is torch.ops.aten.add.Tensor)
multiply.args = (multiply.args[0], 2)
module.recompile()
module(x)
"""


def findings(oracle: ProgramOracle, place: Path, code: str) -> tuple[Findings, str]:
    printed = run_forked(oracle, place, MODELS + code, "override", {"measure": ["accuracy"]})
    return read_findings(place / "probe"), printed


@pytest.mark.torch
@pytest.mark.slow
def test_healthy_exports_agree_and_the_script_goes_on_as_without(oracle: ProgramOracle, tmp_path: Path) -> None:
    found, printed = findings(oracle, tmp_path, HEALTHY)
    assert printed.split() == ["True", "True", "5"]
    assert wrong_result(found.compiled) is None
    problems = {call.name: call.problem for call in found.compiled if call.problem}
    assert problems.keys() == {"Locked (exported)", "Trains (exported)"}
    assert problems["Locked (exported)"].startswith("Locked cannot be copied: TypeError")
    assert "random" in problems["Trains (exported)"]
    by_name = {call.name: call for call in found.compiled}
    assert by_name["Counts (exported)"].compared and by_name["Writes (exported)"].compared


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "where"), [(LOSES, "mean after the call"), (CHANGED_LATER, "output 0")], ids=("state", "later call")
)
def test_an_exported_program_that_does_something_else_is_a_wrong_result(
    oracle: ProgramOracle, tmp_path: Path, code: str, where: str
) -> None:
    found, printed = findings(oracle, tmp_path, code)
    if printed == "refused\n":
        pytest.skip("this torch refuses to export a model that sets a buffer anew")
    failure = wrong_result(found.compiled)
    assert failure is not None and failure.difference is not None
    assert failure.difference.where == where and "(exported)" in failure.text
