"""Graphs are recorded with the backend that the script chose; with real torch."""

import os
import sys
from pathlib import Path

import pytest

from repro_kit.runner.launch import launch
from repro_kit.runner.recorded import read_recorded
from repro_kit.runner.subject_start import probe_environment

AHEAD = """
import contextlib
import torch
import torch._inductor.compile_fx

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
def test_a_graph_that_is_compiled_ahead_has_the_scripts_backend(tmp_path: Path) -> None:
    pytest.importorskip("torch._dynamo.aot_compile")
    script = tmp_path / "script.py"
    script.write_text(AHEAD)
    ended = launch(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=probe_environment(os.environ, "capture", tmp_path / "probe", 240, {}),
        timeout=240,
        stdout=tmp_path / "out.txt",
        stderr=tmp_path / "err.txt",
    )
    assert ended.exit_status == 0, (tmp_path / "err.txt").read_text()
    (recorded,) = read_recorded(tmp_path / "probe")
    own, inductor = (graph.backend for graph in recorded.graphs)
    assert (own.name, own.file, own.dynamic) == ("backend", str(script), True)
    assert (inductor.name, inductor.dynamic) == ("inductor", True)
