"""Whether torch may compute products in TF32: in processes of their own, since a setting holds for a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from forked import run_forked
from repro_kit.runner.program_oracle import ProgramOracle

pytestmark = pytest.mark.torch

SCRIPT = """
import torch
try:
    {setting}
except AttributeError:
    print("this torch has no such setting")
    raise SystemExit
from repro_probe.judge.rounding import coarse_epsilon
from repro_probe.record.surroundings import switches
asked = [("bmm", "cuda"), ("convolution", "cuda"), ("bmm", "cpu"), ("exp", "cuda")]
coarse = [name + " on " + device for name, device in asked if coarse_epsilon(name, torch.float32, device)]
assert not any(coarse_epsilon(name, torch.float64, device) for name, device in asked)
print(coarse)
print(*switches(), sep="\\n")
"""
PRODUCTS = "torch.backends.cuda.matmul.fp32_precision"


def run(oracle: ProgramOracle, place: Path, setting: str) -> list[str]:
    lines = run_forked(oracle, place, SCRIPT.format(setting=setting), "observe", {}).splitlines()
    if lines == ["this torch has no such setting"]:
        pytest.skip(lines[0])
    return lines


def test_by_default_only_convolutions_are_rounded_to_tf32(oracle: ProgramOracle, tmp_path: Path) -> None:
    coarse, *switches = run(oracle, tmp_path, "pass")
    assert coarse == "['convolution on cuda']"
    assert not [switch for switch in switches if "precision" in switch]


@pytest.mark.parametrize("setting", ['torch.set_float32_matmul_precision("high")', f'{PRODUCTS} = "tf32"'])
def test_products_are_where_the_program_says_so(oracle: ProgramOracle, tmp_path: Path, setting: str) -> None:
    coarse, *switches = run(oracle, tmp_path, setting)
    assert coarse == "['bmm on cuda', 'convolution on cuda']"
    assert setting.replace('"', "'") in switches, "a program of the graph says it too"


@pytest.mark.parametrize(
    "setting", ["torch.backends.cudnn.allow_tf32 = False", 'torch.backends.cudnn.conv.fp32_precision = "ieee"']
)
def test_nothing_is_where_the_program_forbids_it(oracle: ProgramOracle, tmp_path: Path, setting: str) -> None:
    coarse, *switches = run(oracle, tmp_path, setting)
    assert coarse == "[]"
    assert setting.replace('"', "'") in switches


#: Attention, as a library and as Triton compute it: the operands of a product are rounded to TF32, or cut off.
ATTENTION = """
import contextlib
import torch
import repro_probe.judge.rounding as tensor_float
from repro_probe.judge import compare_outputs
from repro_probe.judge.double_precision import in_double
from repro_probe.judge.rounding import nudged_runs
from repro_probe.judge.compare_outputs import Tolerance
from repro_probe.run import outputs

def to_tf32(value, half):
    return ((value.contiguous().view(torch.int32) + half) & ~0x1FFF).view(torch.float32)

class Products(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self, half):
        super().__init__()
        self.half = half
    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function is torch.ops.aten.bmm.default and arguments[0].dtype is torch.float32:
            arguments = [to_tf32(argument, self.half) for argument in arguments]
        return function(*arguments, **(options or {}))

class Program:
    parameters = ["q", "k", "v"]
    recipe = {"seed": 0, "backward": "none", "rtol": None, "atol": None}
    def __init__(self, half, scale=1.0):
        self.half, self.scale = half, scale
    def graph(self, q, k, v):
        with Products(self.half):
            return (self.scale * torch.softmax(q @ k.mT / 8, -1) @ v,)
    def calls(self):
        torch.manual_seed(0)
        return [tuple(torch.randn(4, 128, 64) for _ in range(3))]
    def forward_region(self, autocast=True):
        return contextlib.nullcontext()
    def widened(self, widen):
        return contextlib.nullcontext()

def outcome(program):
    return outputs.run(program, program.graph)

eager = Program(0x1000)
known = tensor_float.coarse_epsilon
for coarse in (False, True):
    tensor_float.coarse_epsilon = lambda name, dtype, device: known(name, dtype, "cuda") if coarse else None
    evidence = compare_outputs.Evidence(in_double(eager), nudged_runs(eager))
    for other in (Program(0), Program(0x1000, scale=1.01)):
        both = outcome(eager), outcome(other)
        print(bool(compare_outputs.kinds_of_difference(*both, Tolerance(eager.recipe), evidence)))
"""


def test_two_ways_to_round_to_tf32_are_no_wrong_result_and_one_per_cent_is(
    oracle: ProgramOracle, tmp_path: Path
) -> None:
    code = "import torch\ntorch.set_float32_matmul_precision('high')\n" + ATTENTION
    printed = run_forked(oracle, tmp_path, code, "observe", {})
    unaware, aware = printed.split()[:2], printed.split()[2:]
    assert unaware == ["True", "True"]
    assert aware == ["False", "True"]
