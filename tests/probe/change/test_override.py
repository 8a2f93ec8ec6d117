"""Overrides and recording in a real run."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forked import run_forked
from probed import run_probed
from repro_kit.failure.differences import first_differing_call
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import Recorded, read_findings, read_recorded
from repro_kit.runner.supervised import PROBE
from repro_kit.verdicts import eager_run

SCRIPT = """
import torch

def backend(gm, inputs, **options):
    print("backend", sorted(options))
    return gm.forward

@torch.compile(backend=backend, options={"mine": 1})
def f(x):
    return torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.sin(), (x,)) @ x.t()

x = torch.ones(3, 3)
f(x)
torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.sin(), (x,))  # compiles itself, with backend "eager"
raise ValueError("the end")
"""


def run(oracle: ProgramOracle, place: Path, mode: str, options: dict[str, object]) -> str:
    printed = run_forked(oracle, place, SCRIPT, mode, options, status=1)
    assert [uncaught.links[0].type for uncaught in read_findings(place / "probe").exceptions] == ["ValueError"]
    return printed


@pytest.mark.torch
@pytest.mark.slow
def test_another_backend_does_not_get_the_options_of_the_users(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run(oracle, tmp_path, "override", {"backend": "eager"}) == ""


@pytest.mark.torch
@pytest.mark.slow
def test_the_users_backend_keeps_its_options(oracle: ProgramOracle, tmp_path: Path) -> None:
    assert run(oracle, tmp_path, "override", {"dynamic": False}) == "backend ['options']\n"


@pytest.mark.torch
@pytest.mark.slow
def test_graphs_are_recorded_with_bodies_values_and_the_users_own_settings(
    oracle: ProgramOracle, tmp_path: Path
) -> None:
    run(oracle, tmp_path, "capture", {})
    recorded: Recorded
    (recorded,) = read_recorded(tmp_path / "probe")
    graph = recorded.graphs[0]
    assert graph.problem is None
    assert set(graph.modules) == {"cond_true_0", "cond_false_0"}
    assert graph.inputs[0].file is not None
    assert (tmp_path / "probe" / "inputs" / graph.inputs[0].file).is_file()
    assert graph.backend.qualname == "backend"
    assert recorded.compile_settings()["backend"] == "backend"


DYNAMIC = """
import torch

@torch.compile(dynamic=True, fullgraph=True)
def start(rows, columns, first):
    return torch.cond(first, lambda: torch.zeros(rows, columns), lambda: torch.ones(rows, columns))

print(start(3, 2, torch.tensor(True)).shape)
"""


@pytest.mark.torch
@pytest.mark.slow
def test_in_eager_what_an_operator_traces_itself_has_the_sizes_that_eager_has(
    oracle: ProgramOracle, tmp_path: Path
) -> None:
    """`dynamic` of the compiled function around it would else count for it, too."""
    assert run_forked(oracle, tmp_path, DYNAMIC, "override", dict(eager_run.PROBE)) == "torch.Size([3, 2])\n"


STATE = """
import torch

def make():
    seen = []
    class Helper:
        def touch(self):
            seen.append(1)
    def f(x):
        Helper().touch()
        return x + torch.rand(3)
    return f

torch.compile(make(), backend="eager")(torch.rand(3))
"""
RAISES = """
import torch

seen = []

def f(x):
    seen.append(1)
    return x @ x[1:]

try:
    torch.compile(f, backend="eager")(torch.rand(3))
except RuntimeError:
    pass
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_witness_tells_lost_state_from_a_wrong_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = witnessed(STATE, tmp_path, monkeypatch)
    assert [call[0] for call in runs[0]] == ["make.<locals>.f"]
    touched = [call[3]["Helper"]["touch"]["seen"] for (call,) in runs]
    # Eager's list has an element; what Dynamo leaves is its own matter, and results must agree in any case.
    assert touched[0] == [1, 1]
    difference = first_differing_call(*runs)
    assert difference is None or difference.what == "state"


@pytest.mark.torch
@pytest.mark.slow
def test_a_witness_takes_an_exception_that_a_script_catches_alike_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = witnessed(RAISES, tmp_path, monkeypatch)
    assert [call[2] for (call,) in runs] == [["raised", "RuntimeError"]] * 2
    difference = first_differing_call(*runs)
    assert difference is not None and difference.what == "state" and "leaves another state: seen" in str(difference)


def witnessed(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of a script without torch.compile, and with it."""
    runs = []
    for name, disabled in (("plain", "1"), ("eager", "")):
        place = tmp_path / name
        place.mkdir()
        monkeypatch.setenv("TORCH_COMPILE_DISABLE", disabled)
        run_probed(place, script, "override", {"witness": True})
        (found,) = (place / "probe").glob("witness-*.json")
        runs.append(json.loads(found.read_text()))
    return runs


@pytest.mark.torch
@pytest.mark.slow
def test_the_order_of_keys_is_state(python_in_forks: Path) -> None:
    code = (
        "import torch\nfrom repro_probe.calls.recorded_calls import Witness\n"
        "witness = Witness(torch, lambda calls: print([call[1] == calls[0][1] for call in calls]))\n"
        "function = witness(len, len)\n"
        "for argument in ({'a': 0, 'b': 0}, {'a': 0, 'b': 0}, {'b': 0, 'a': 0}):\n"
        "    function(argument)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(PROBE)}
    done = subprocess.run([python_in_forks, "-c", code], env=env, check=True, timeout=120, capture_output=True)
    assert done.stdout.split() == b"[True, True, False]".split(), done


@pytest.mark.torch
@pytest.mark.slow
def test_settings_stay_and_a_function_of_the_script_can_be_the_backend(oracle: ProgramOracle, tmp_path: Path) -> None:
    code = (
        "import torch, torch._inductor.config as config\n"
        "def mine(gm, inputs):\n    print('mine', torch.is_grad_enabled(), ready)\n    return gm.forward\n"
        "config.pattern_matcher = True\n"
        "torch.compile(lambda x: x + 1)(torch.ones(2))\n"
        "print(config.pattern_matcher, config.cpp.simdlen)\n"
    )
    options = {
        "backend": "mine",
        "grad": False,
        "setup": "import builtins; builtins.ready = 'set up'",
        "config": {"inductor.pattern_matcher": False, "inductor.cpp.simdlen": 1},
    }
    assert run_forked(oracle, tmp_path, code, "override", options) == "mine False set up\nFalse 1\n"


UNGUARDED = """
import torch
factor = 2

@torch.compile(backend="eager", options={"guard_filter_fn": lambda guards: [False] * len(guards)})
def scaled(x):
    return x * factor

scaled(torch.ones(1))
factor = 3
print(scaled(torch.ones(1)).item())
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("options", [{"backend": "aot_eager"}, {"backend": "inductor", "mode": "max-autotune"}])
def test_the_users_filter_of_guards_stays_with_any_backend_and_mode(
    oracle: ProgramOracle, tmp_path: Path, options: dict[str, object]
) -> None:
    assert run_forked(oracle, tmp_path, UNGUARDED, "override", options) == "2.0\n"
