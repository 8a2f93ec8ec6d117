"""Overrides and recording in a real run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from probed import run_probed
from repro_kit.model.ablation.parting import parting
from repro_kit.runner.launch import PROBE, launch
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.recorded import Recorded, read_recorded
from repro_kit.runner.subject_start import probe_environment

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


def run(tmp_path: Path, mode: str, options: dict[str, object]) -> str:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = probe_environment(os.environ, mode, tmp_path / "probe", 120, options)
    ran = launch(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=env,
        timeout=120,
        stdout=tmp_path / "out.txt",
        stderr=tmp_path / "err.txt",
    )
    assert ran.exit_status == 1, (tmp_path / "err.txt").read_text()
    findings = read_findings(tmp_path / "probe")
    assert findings.problems == ()
    assert [uncaught.links[0].type for uncaught in findings.exceptions] == ["ValueError"]
    return (tmp_path / "out.txt").read_text()


@pytest.mark.torch
@pytest.mark.slow
def test_another_backend_does_not_get_the_options_of_the_users(tmp_path: Path) -> None:
    assert run(tmp_path, "override", {"backend": "eager"}) == ""


@pytest.mark.torch
@pytest.mark.slow
def test_the_users_backend_keeps_its_options(tmp_path: Path) -> None:
    assert run(tmp_path, "override", {"dynamic": False}) == "backend ['options']\n"


@pytest.mark.torch
@pytest.mark.slow
def test_graphs_are_recorded_with_bodies_values_and_the_users_own_settings(tmp_path: Path) -> None:
    run(tmp_path, "capture", {})
    recorded: Recorded
    (recorded,) = read_recorded(tmp_path / "probe")
    graph = recorded.graphs[0]
    assert graph.problem is None
    assert set(graph.modules) == {"cond_true_0", "cond_false_0"}
    assert graph.inputs[0].file is not None
    assert (tmp_path / "probe" / "inputs" / graph.inputs[0].file).is_file()
    assert graph.backend.qualname == "backend"
    assert recorded.compile_settings()["backend"] == "backend"


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


@pytest.mark.torch
@pytest.mark.slow
def test_a_witness_tells_lost_state_from_a_wrong_result(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(STATE)
    runs = []
    for name, variables in (("plain", {"TORCH_COMPILE_DISABLE": "1"}), ("eager", {})):
        place = tmp_path / name
        env = probe_environment({**os.environ, **variables}, "override", place, 120, {"witness": True})
        ran = launch(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env=env,
            timeout=120,
            stdout=tmp_path / "out.txt",
            stderr=tmp_path / "err.txt",
        )
        assert ran.ok, (tmp_path / "err.txt").read_text()
        (found,) = place.glob("witness-*.json")
        runs.append(json.loads(found.read_text()))
    assert [call[0] for call in runs[0]] == ["make.<locals>.f"]
    touched = [call[3]["Helper"]["touch"]["seen"] for (call,) in runs]
    # Eager's list has an element; what Dynamo leaves is its own matter, and results must agree in any case.
    assert touched[0] == [1, 1]
    assert parting(*runs) is None or parting(*runs).what == "state"


@pytest.mark.torch
def test_the_order_of_keys_is_state() -> None:
    code = (
        "import torch\nfrom repro_probe.calls.witness import Witness\n"
        "witness = Witness(torch, lambda calls: print([call[1] == calls[0][1] for call in calls]))\n"
        "function = witness(len, len)\n"
        "for argument in ({'a': 0, 'b': 0}, {'a': 0, 'b': 0}, {'b': 0, 'a': 0}):\n"
        "    function(argument)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(PROBE)}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=120, capture_output=True)
    assert done.stdout.split() == b"[True, True, False]".split(), done


@pytest.mark.torch
@pytest.mark.slow
def test_settings_stay_and_a_function_of_the_script_can_be_the_backend(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
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
    env = probe_environment(os.environ, "override", tmp_path / "probe", 120, options)
    out, err = tmp_path / "out.txt", tmp_path / "err.txt"
    ran = launch([sys.executable, str(script)], cwd=tmp_path, env=env, timeout=120, stdout=out, stderr=err)
    assert ran.ok, err.read_text()
    assert out.read_text() == "mine False set up\nFalse 1\n"


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
def test_the_users_filter_of_guards_stays_with_any_backend_and_mode(tmp_path: Path, options: dict[str, object]) -> None:
    assert run_probed(tmp_path, UNGUARDED, "override", options) == "2.0\n"
