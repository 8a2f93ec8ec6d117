"""Random numbers that compiled code puts in another order of the elements are no wrong result."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from forked import run_forked
from repro_kit.failure.compiled_calls import wrong_result
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_findings

#: Eager draws the mask for a transposed tensor in the order of its memory; Inductor makes that tensor contiguous.
SCRIPT = """
import torch
from torch.nn import functional as F

def normed(x, scale):
    y = F.batch_norm(x.transpose(1, 2), None, None, training=True).transpose(1, 2)
    return (F.dropout(y, 0.5) * (scale if torch.compiler.is_compiling() else 1)).contiguous()

x = torch.randn(2, 6, 2)
torch.compile(normed)(x, 1)
torch.compile(lambda x: normed(x, 2))(x)

torch._inductor.config.fallback_random = True
torch.manual_seed(0)
eager = normed(x, 1)
torch.manual_seed(0)
print(torch.allclose(torch.compile(normed)(x, 1), eager))
"""


@pytest.mark.torch
@pytest.mark.slow
def test_another_order_is_right_and_other_values_are_not(oracle: ProgramOracle, tmp_path: Path) -> None:
    printed = run_forked(oracle, tmp_path, SCRIPT, "override", {"measure": ["accuracy"]})
    if printed == "True\n":
        pytest.skip("this torch draws random numbers in the order of the elements")
    right, wrong, _ = read_findings(tmp_path / "probe").compiled
    assert (right.compared, right.difference, right.random) == (1, None, True), right.note
    assert "in another order of its elements" in right.note
    assert wrong_result([wrong]) is not None


@pytest.mark.torch
def test_numbers_are_drawn_in_the_order_of_the_indices() -> None:
    torch = pytest.importorskip("torch")
    from repro_probe.judge.doubts import DrawnInOrder

    def graph(transposed: bool) -> object:
        torch.manual_seed(0)
        x = torch.empty(3, 2).t() if transposed else torch.empty(2, 3)
        return torch.rand_like(x), x.normal_()

    program = DrawnInOrder(SimpleNamespace(graph=graph, parameters=["x"]))
    assert program.parameters == ["x"]
    assert all(map(torch.equal, program.graph(True), graph(False)))
    assert not any(map(torch.equal, graph(True), graph(False)))
