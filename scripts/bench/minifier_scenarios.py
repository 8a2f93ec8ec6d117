#!/usr/bin/env python3
"""What repro-kit says of the scenarios of PyTorch's own minifier tests, as a table.

    python scripts/bench/minifier_scenarios.py [SCENARIO …]

The scenarios are those of test/dynamo/test_minifier.py, test/inductor/test_minifier.py, test_minifier_isolate.py and
test_minifier_utils.py, each written as a script that fails by itself: a test of PyTorch sets the bug from outside.
Each is collected from an empty directory. One that needs CUDA ends with "GPU only" where there is none.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from collect import in_words
from measure import measured
from repro_kit.errors import Exit
from repro_kit.graph.reading.artifact_forms import operators_in

PATIENCE = 1200.0  # seconds for one


@dataclass(frozen=True)
class Scenario:
    """One test of PyTorch: what it runs and expects, and the options that make repro-kit look for the same."""

    name: str
    expects: str
    body: str
    options: tuple[str, ...] = ()
    left: bool = False  # the test says which operator must be left

    @property
    def script(self) -> str:
        return f"import torch\n\n{self.body.strip()}\n"


def _chain(backend: str, middle: str = "    x = torch.relu(x)\n", times: int = 10) -> str:
    """Sines, then `middle`, then cosines, on a backend of PyTorch's tests."""
    return (
        f"\n@torch.compile(backend={backend!r})\ndef chain(x):\n"
        f"    for _ in range({times}):\n        x = torch.sin(x)\n{middle}"
        f"    for _ in range({times}):\n        x = torch.cos(x)\n    return x\n\n\nchain(torch.randn(20, 20))\n"
    )


def _bug(kind: str, of: str = "cpp", op: str = "relu") -> str:
    return f'import torch._inductor.config\n\ntorch._inductor.config.{of}.inject_{op}_bug_TESTING_ONLY = "{kind}"\n\n\n'


def _pair(device: str, size: int = 20) -> str:
    return (
        "@torch.compile\ndef pair(x):\n    return torch.cos(torch.relu(x))\n\n\n"
        f'pair(torch.randn({size}, {size}).to("{device}"))\n'
    )


MIXED = """
class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.there, self.here = torch.nn.Linear(20, 20).to("cuda"), torch.nn.Linear(20, 20)
        self.scale = torch.nn.Parameter(torch.randn(20, 20, device="cuda"))
        self.register_buffer("ones", torch.ones(20, 20))

    def forward(self, x, y):
        return self.there(x) * self.scale, self.here(y) + self.ones


mixed = Mixed()


@torch.compile(backend="relu_compile_error_TESTING_ONLY")
def both(x, y):
    there, here = mixed(x, y)
    return torch.relu(there.cpu() + here)


both(torch.randn(20, 20, device="cuda"), torch.randn(20, 20))
"""
CONSTANT = """
@torch.compile
def shifted(x):
    return torch.tensor(2) + torch.relu(x)


shifted(torch.randn(2))
"""
HALF = """
@torch.compile
def product(x):
    return x - torch.tensor(655, dtype=torch.half, device="cuda") * 100


product(torch.tensor(655 * 100, dtype=torch.half, device="cuda"))
"""
MASKED = """
@torch.compile
def masked(x):
    positive = torch.log1p(x) > 0
    positive = torch.logical_not(torch.logical_not(positive))
    x = torch.relu(x)
    return torch.where(positive, x, x)


masked(torch.randn(20))
"""
DELTA = """
@torch.compile
def delta(x):
    return torch.relu(torch.cos(torch.sin(torch.sin(x))))


delta(torch.randn(20, 20))
"""
NON_LEAF = """
@torch.compile(backend="non_leaf_compile_error_TESTING_ONLY")
def more(x):
    return x + 1


more(torch.randn(20, 20, requires_grad=True) + 1)
"""
BRANCHES = """
@torch.compile
def branches(pred, x):
    return torch.cond(pred, lambda x: torch.relu(x.sin()), lambda x: x.cos(), (x,))


branches(torch.tensor(True), torch.randn(4))
"""
WRONG = ("--check", "accuracy")
RELU, RUN, WORSE = (f"relu_{kind}_error_TESTING_ONLY" for kind in ("compile", "runtime", "accuracy"))

SCENARIOS = (
    Scenario("dynamo: compile_error", "`ReluCompileError`", _chain(RELU)),
    Scenario("dynamo: runtime_error", "`ReluRuntimeError`", _chain(RUN)),
    Scenario("dynamo: accuracy_error", "`AccuracyError`", _chain(WORSE), WRONG),
    Scenario("dynamo: non_leaf_compile_error", "`TestingOnlyCompileError`", NON_LEAF),
    Scenario("dynamo: compile_backend_passes", "no failure", _chain(RELU, "")),
    Scenario("dynamo: runtime_backend_passes", "no failure", _chain(RUN, "")),
    Scenario("dynamo: accuracy_backend_passes", "no failure", _chain(WORSE, ""), WRONG),
    Scenario("dynamo: cpu_device_module (CUDA)", "`ReluCompileError`, a module on two devices", MIXED),
    Scenario("dynamo: if_graph_minified", "one relu is left of 41 operators", _chain(RELU, times=20), left=True),
    Scenario("inductor: cpu_compile_error", "`CppCompileError`", _bug("compile_error") + _pair("cpu")),
    Scenario("inductor: cpu_accuracy_error", "`AccuracyError`", _bug("accuracy") + _pair("cpu"), WRONG),
    Scenario("inductor: gpu_compile_error (CUDA)", "`SyntaxError`", _bug("compile_error", "triton") + _pair("cuda")),
    Scenario(
        "inductor: gpu_accuracy_error (CUDA)", "`AccuracyError`", _bug("accuracy", "triton") + _pair("cuda"), WRONG
    ),
    Scenario("inductor: constant_in_graph", "`AccuracyError`, with a constant", _bug("accuracy") + CONSTANT, WRONG),
    Scenario("inductor: rmse_improves_over_atol (CUDA)", "no failure against double precision", HALF, WRONG),
    Scenario(
        "inductor: accuracy_vs_strict_accuracy", "the relu, not the log1p before a mask",
        _bug("accuracy") + _bug("accuracy", op="log1p") + MASKED, WRONG, left=True,
    ),
    Scenario("inductor: offload_to_disk", "`AccuracyError`, through delta debugging", _bug("accuracy") + DELTA, WRONG),
    Scenario("isolate: cpu_runtime_error", "any error, in its own process", _bug("runtime_error") + _pair("cpu", 2)),
    Scenario(
        "isolate: cuda_runtime_error (CUDA)", "a device-side assert", _bug("runtime_error", "triton") + _pair("cuda", 2)
    ),
    Scenario("utils: cond_subgraph", "the branches of a `cond` are kept", _bug("compile_error") + BRANCHES),
)  # fmt: skip


def said(scenario: Scenario) -> str:
    """What `collect` says of it: the exit code, the failure, and the result."""
    with tempfile.TemporaryDirectory(prefix="scenario-") as directory:
        script = Path(directory, "scenario.py")
        script.write_text(scenario.script)
        options = ("--yes", "--trace", "no", "--json", "--python", sys.executable, *scenario.options)
        command = [sys.executable, "-m", "repro_kit", "collect", *options, script]
        ended = measured(command, Path(directory), os.environ, PATIENCE)
        best = Path(directory, "scenario.repro", "minify", "best.py")
        text = best.read_text() if scenario.left and best.exists() else ""
        operators = [name for name in operators_in(text) if name in operators_in(scenario.body) and name != "compile"]
    if ended.code is None:
        return f"stopped after {PATIENCE:.0f} s"
    try:
        result = json.loads(ended.stdout)
    except json.JSONDecodeError:
        return f"exit {ended.code}: {ended.stderr.strip().rpartition(chr(10))[2]}"
    if ended.code == Exit.CANNOT_RUN:
        return f"exit {ended.code}: GPU only"
    if not result.get("failure"):
        return f"exit {ended.code}: {result.get('error') or 'nothing fails'}"
    named = f" ({', '.join(operators)})" if operators else ""
    return f"exit {ended.code}: {result['failure']} in {result['layer']}, {in_words(result)}{named}"


def main() -> None:
    """Print the table, a row at a time."""
    wanted = sys.argv[1:]
    print("| scenario | PyTorch's test expects | repro-kit says |\n|---|---|---|")
    for scenario in SCENARIOS:
        if not wanted or any(name in scenario.name for name in wanted):
            print(f"| {scenario.name} | {scenario.expects} | {said(scenario)} |", flush=True)


if __name__ == "__main__":
    main()
