"""What a script precompiles is recorded, and a stand-in runs the function in its place; with a torch that has it."""

from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_findings, read_recorded

SCRIPT = """
import os
import torch
from torch.compiler import precompile

model, x = torch.nn.Linear(2, 2), torch.ones(3, 2)
with precompile.capture(lambda model, x: {"a": model(x).relu()}, artifact_path="m.py", cache_path="m.cache") as capture:
    capture(model, x)
with precompile.load("m.py", "m.cache") as loaded:
    print(torch.equal(loaded(model, x)["a"], model(x).relu()), os.path.exists("m.py"))
"""

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def run(oracle: ProgramOracle, tmp_path: Path, mode: str, options: dict[str, object], code: str = SCRIPT) -> str:
    if not hasattr(getattr(pytest.importorskip("torch.compiler"), "precompile", None), "capture"):
        pytest.skip("this torch has no torch.compiler.precompile.capture")
    return run_forked(oracle, tmp_path, code, mode, options)


def test_the_graph_that_inductor_got_is_recorded(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run(oracle, tmp_path, "capture", {}) == "True True\n"
    (recorded,) = read_recorded(tmp_path / "probe")
    assert recorded.problems == () and recorded.compile_settings()["backend"] == "precompile"
    (graph,) = recorded.graphs
    assert graph.backend.name == "precompile" and graph.recipe["regions"] == []
    assert "tree_flatten" not in graph.code and "torch.ops.aten.relu" in graph.code
    assert [(tensor.shape, tensor.parameter) for tensor in graph.inputs] == [
        ((2, 2), True),
        ((2,), True),
        ((3, 2), False),
    ]


@pytest.mark.parametrize("backend", [None, "eager"])
def test_without_it_the_function_itself_runs(oracle: ProgramOracle, tmp_path: Path, backend: str | None) -> None:
    options = {"eager": True} if backend is None else {"backend": backend}
    assert run(oracle, tmp_path, "override", options) == "True False\n"


def test_code_that_an_earlier_run_precompiled_is_noted(oracle: ProgramOracle, tmp_path: Path) -> None:
    run(oracle, tmp_path, "capture", {})
    loads = SCRIPT[: SCRIPT.index("with precompile.capture")] + SCRIPT[SCRIPT.index("with precompile.load") :]
    assert run(oracle, tmp_path, "override", {"eager": True}, loads) == "True True\n"
    assert read_findings(tmp_path / "probe").loaded
