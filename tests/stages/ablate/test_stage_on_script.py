"""The ablation of a whole script: which graph, which part of the backend, which setting; and what makes it work now."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.runner.program_oracle import ProgramOracle
from subjects_in_forks import subjects_in_forks

pytestmark = [pytest.mark.torch, pytest.mark.slow]

#: Two graphs; the second fails in a decomposition, and only with the user's setting. The other setting is idle.
SCRIPT = """
import torch
import torch._dynamo.config as config
from torch._inductor.decomposition import decompositions

config.recompile_limit = 77
config.accumulated_recompile_limit = 99
original = decompositions[torch.ops.aten.silu.default]

def planted(x):
    if config.recompile_limit == 77:
        raise ValueError("planted in the decomposition of silu")
    return original(x)

decompositions[torch.ops.aten.silu.default] = planted

def compiled(function):
    return torch.compile(function, backend="aot_eager_decomp_partition")

@compiled
def first(x):
    return x.sin() + 1

def activated(x):
    return torch.nn.functional.silu(x)

@compiled
def second(x):
    return activated(x.cos()) + 1

print(second(first(torch.ones(3))))
"""


@pytest.fixture(scope="module")
def ablation(tmp_path_factory: pytest.TempPathFactory, one_zygote: None, oracle: ProgramOracle) -> dict[str, Any]:
    """`ablation.json` of the script."""
    place = tmp_path_factory.mktemp("ablated")
    script = place / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    case = str(place / "x.repro")
    observed = CliRunner().invoke(cli, ["observe", "-o", case, "--python", sys.executable, str(script)])
    assert observed.exit_code == 0, observed.output  # a start of its own: the settings that it finds are torch's
    words = ["ablate", "--on", "script", "--preset", "quick", "--stop-early", "--narrow", "graph,subsystem,needs"]
    with subjects_in_forks(oracle):
        ran = CliRunner().invoke(cli, [*words, case])
    assert ran.exit_code == 0, ran.output
    data: dict[str, Any] = json.loads(Path(case, "ablation.json").read_text())
    assert (data["subject"], data["layer"], data["cause"]) == ("script", "decomposition", "script-code"), ran.output
    assert data["sentence"].startswith("A decomposition that the script registers (planted) raises"), ran.output
    return data


def test_narrowing_names_graph_subsystem_and_setting(ablation: dict[str, Any]) -> None:
    links = {link["step"]: link for link in ablation["chain"]["links"]}
    assert links["graph"]["culprit"] == "graph 1"
    assert links["graph"]["good"]["outcome"] == "passes" and links["graph"]["bad"]["outcome"] == "fails as observed"
    assert links["subsystem"]["culprit"] == "decomposition"
    assert ablation["chain"]["needs"] == ["dynamo.recompile_limit"]


def test_a_function_left_to_eager_is_a_workaround(ablation: dict[str, Any]) -> None:
    (disabled, *others) = ablation["workarounds"]  # the least intrusive first
    assert disabled["name"].startswith("leave activated (train.py:") and disabled["status"] == "pass"
    assert disabled["lines"] == ["@torch.compiler.disable", "def activated(…):"]
    assert disabled["to_eager"]["value"] > 0  # it was timed in a run that ended well
    assert [workaround["name"] for workaround in others] == ["backend aot_eager", "no torch.compile"]
