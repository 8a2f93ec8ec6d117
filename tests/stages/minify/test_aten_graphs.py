"""``minify --border``: the aten graph that Inductor gets of a program, reduced on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collecting import told
from repro_kit.case.case import Case
from repro_kit.case.stage_results import Reduction
from repro_kit.failure.kinds import Kind
from repro_kit.graph import parse
from repro_kit.stages.minify.program_reduction import aten_programs

TEXT = """# repro-kit program 1
import torch

RECIPE = {'backward': 'sum', 'check': False}


from torch._inductor.lowering import lowerings


def broken(*args, **kwargs):
    raise AssertionError("no lowering today")


lowerings[torch.ops.aten.sigmoid.default] = broken


def graph(x):
    a = torch.nn.functional.silu(x)
    b = torch.tanh(a)
    return (b,)


def calls():
    x = torch.randn(4, 4).requires_grad_()
    return [(x,)]
"""


@pytest.mark.torch
@pytest.mark.slow
def test_the_graphs_of_a_trace_are_programs_and_a_backward_is_a_forward() -> None:
    fine = parse(TEXT.replace("lowerings[torch.ops.aten.sigmoid.default] = broken", ""))
    found = list(aten_programs(fine, Path(), sys.executable, Kind.COMPILE_ERROR, 120.0))
    assert len(found) == 2  # forward and backward
    assert all("torch.ops.aten." in it.graph.statements[0].text for it in found)
    assert {it.recipe.backward for it in found} == {"none"}


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("one_zygote")
def test_the_reduction_goes_on_at_the_aten_border(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TEXT)
    case = tmp_path / "case.repro"
    told(tmp_path, "minify", "--python", sys.executable, "--border", "aot", "--output", str(case), "program.py")
    made = Case.open(case).read("minify/minify.json", Reduction)
    assert "aten_border" in [step.name for step in made.steps]
    assert made.verified
    assert made.statements_after == 1
