"""What the probe finds of the compiled calls of a real script: wrong results, time and memory, functions left out."""

import math
from pathlib import Path

import pytest

from forked import run_forked
from probed import run_probed
from repro_kit.failure.compiled_calls import extra_memory, slowdown, wrong_result
from repro_kit.failure.kinds import Kind
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import Findings, read_findings

SCRIPT = """
import time
import torch

def wrong(gm, inputs):
    if "erf" not in gm.code:
        return gm
    return lambda *args: [out * 1.5 for out in gm(*args)]

def slow(gm, inputs):
    kept = []
    def run(*args):
        time.sleep(0.002)
        out = gm(*args)
        kept.append([it.clone() for it in out])
        return out
    return run

def inner(x):
    return torch.erf(x)

def outer(x):
    return inner(x * 2) + 1

net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
right = torch.compile(net, backend="eager")
differs = torch.compile(outer, backend=wrong)
big = torch.compile(lambda x: x + 1, backend=slow)

def twice(x):
    return x * 2

doubled, weight = torch.compile(twice, backend="eager"), torch.ones(4, requires_grad=True)

@torch.compiler.disable
def say(x):
    print(f"{x.requires_grad},{torch.is_grad_enabled()}")

def asked(x):
    say(x)
    return x * 2

torch.manual_seed(0)
for _ in range(3):
    right(torch.ones(8, 4)).sum().backward()
differs(torch.ones(4))
big(torch.ones(1 << 19))
for factor in (10, 1, 1):
    (factor * doubled(weight)).sum().backward()
print(differs(torch.ones(4))[0].item(), net[1].num_batches_tracked.item(), net[0].weight.grad is not None)
print(weight.grad[0].item())
product = weight * 1
with torch.no_grad():
    torch.compile(asked, backend="eager")(product)
"""


RIGHT = math.erf(2) + 1  # what `outer` returns for a one


def run(oracle: ProgramOracle, place: Path, measure: str) -> tuple[list[str], Findings]:
    code = "import torch\ntorch.set_num_threads(1)\n" + SCRIPT
    printed = run_forked(oracle, place, code, "override", {"measure": measure.split()})
    return printed.split(), read_findings(place / "probe")


@pytest.mark.torch
@pytest.mark.slow
def test_a_wrong_result_that_nobody_asserts_on_is_seen_and_the_script_goes_on_as_it_would(
    oracle: ProgramOracle, tmp_path: Path
) -> None:
    printed, findings = run(oracle, tmp_path, "accuracy")
    found = {call.name.partition(" ")[0]: call for call in findings.compiled}
    failure = wrong_result(findings.compiled)
    assert failure is not None
    assert (failure.kind, failure.text[:8]) == (Kind.ACCURACY, "in outer")
    assert failure.difference is not None
    assert failure.difference.where == "output 0"
    # Chance (dropout), gradients and what a call writes to its module's buffers: all agree, and are put back.
    assert (found["Sequential"].compared, found["Sequential"].difference) == (3, None)
    assert float(printed[0]) == pytest.approx(1.5 * RIGHT)
    assert printed[1:4] == ["3", "True", "24.0"]


@pytest.mark.torch
@pytest.mark.slow
def test_only_the_named_functions_are_nudged(oracle: ProgramOracle, tmp_path: Path) -> None:
    code = "import torch\ndef one(x):\n    return x / 3\ndef other(x):\n    return x / 3\nx = torch.ones(64)\n"
    code += "print([torch.equal(torch.compile(it)(x), it(x)) for it in (one, other)])"
    options = {"eager": True, "fullgraph": False, "nudge": 1}
    for name, only, same in (
        ("all", None, "[False, False]"),
        ("one", ["other at script.py:4"], "[True, False]"),
    ):
        asked = options if only is None else {**options, "nudged": only}
        (tmp_path / name).mkdir()
        assert run_forked(oracle, tmp_path / name, code, "override", asked).strip() == same


def test_a_call_is_noted_of_which_a_profiler_or_a_hook_sees_more(oracle: ProgramOracle, tmp_path: Path) -> None:
    code = "import torch\nfrom torch.profiler import profile\nx = torch.ones(2)\n"
    code += "first, other, third = (torch.compile(it, backend='eager') for it in (torch.sin, torch.cos, torch.tan))\n"
    code += "first(x)\nwith profile():\n    other(x)\n"
    code += "with torch.autograd.graph.save_on_cpu():\n    third(x)\n"
    run_forked(
        oracle, tmp_path, code + "import atexit\natexit._run_exitfuncs()\n", "override", {"measure": ["accuracy"]}
    )
    calls = read_findings(tmp_path / "probe").compiled
    assert [(call.compared, call.watched) for call in calls] == [
        (1, ""),
        (1, "a profiler"),
        (1, "a hook for saved tensors"),
    ]


@pytest.mark.slow
def test_time_and_memory_are_measured_against_eager(oracle: ProgramOracle, tmp_path: Path) -> None:
    printed, findings = run(oracle, tmp_path, "memory time")
    found = {call.name.partition(" ")[0]: call for call in findings.compiled}
    slow = slowdown([found["<lambda>"]])
    memory = extra_memory([found["<lambda>"]])
    assert slow is not None
    assert slow.low > 1.1
    assert memory is not None
    assert memory.low > 1.2
    assert found["Sequential"].backward
    assert not found["<lambda>"].backward
    assert [call.calls for call in findings.compiled] == [3, 2, 1, 3, 1]
    assert printed[3] == "24.0", "the gradients of the script are its own"
    # A repeated call has the grad mode of the call, and its arguments need a gradient if those of the call do.
    assert set(printed[4:]) == {"True,False"}


@pytest.mark.torch
@pytest.mark.slow
def test_a_function_that_is_inlined_can_be_left_to_eager_from_outside(tmp_path: Path) -> None:
    line = SCRIPT.splitlines().index("def inner(x):") + 1
    inner = {"name": "inner", "file": str(tmp_path / "script.py"), "line": line}
    printed = run_probed(tmp_path, SCRIPT, "override", {"disable": [inner]}).split()
    assert float(printed[0]) == pytest.approx(RIGHT)
