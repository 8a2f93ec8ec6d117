"""Some graphs of a script are left to eager: by torch's lever, and by the hook for a torch that lacks it."""

from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.runner.program_oracle import ProgramOracle

pytestmark = [pytest.mark.torch]

SCRIPT = """
import torch
import torch._dynamo.config, torch._dynamo.output_graph as output_graph
import repro_probe.change.eager_parts as graphs

if HOW == "hook":
    graphs.hook(output_graph, WANTED)
else:
    graphs.run_graphs_in_eager(WANTED, setattr)

seen = []

def mine(gm, inputs):
    seen.append([node.args[1] for node in gm.graph.nodes if node.op == "call_function"][0])
    return gm

for number in range(4):
    torch.compile(eval(f"lambda x: x + {number}"), backend=mine)(torch.ones(2))
print(seen)
"""


@pytest.mark.parametrize(
    ("how", "wanted", "compiled"),
    [
        ("hook", ">=2", "[0, 1]"),
        ("hook", "1", "[0, 2, 3]"),
        ("hook", "0-1,>2", "[2]"),
        ("lever", ">=2", "[0, 1]"),
        ("lever", "0-1,>2", "[2]"),
    ],
)
def test_only_the_others_go_to_the_backend(
    oracle: ProgramOracle, tmp_path: Path, how: str, wanted: str, compiled: str
) -> None:
    code = SCRIPT.replace("HOW", repr(how)).replace("WANTED", repr(wanted))
    assert run_forked(oracle, tmp_path, code, "observe", {}).split("\n")[-2] == compiled
