"""What `repro.py` does for programs on CUDA, whose kernels run beside the program."""

import ast
import sys

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.program_repro import render_program
from repro_kit.case.stage_results import Environment
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import parse

PROGRAM = """
# repro-kit program 1
import torch
from torch import device, inf, nan

RECIPE = {recipe!r}


def graph(x, table):
    gather = torch.gather(table, 0, x)
    return (gather,)


def calls():
    x = torch.zeros(4, dtype=torch.int64, device='DEVICE')
    x_1 = torch.ones(4, dtype=torch.int64, device='DEVICE')
    table = torch.randn(8, device='DEVICE')
    return [(x, table){second}]
"""
COPY = "out.clone() if isinstance(out, torch.Tensor) else out"


def written(kind: Kind, device: str = "cuda:0", calls: int = 1, **recipe: object) -> str:
    second = ", (x_1, table)" if calls > 1 else ""
    text = PROGRAM.format(recipe=recipe, second=second).replace("DEVICE", device)
    if calls == 1:
        text = text.replace("    x_1 = torch.ones(4, dtype=torch.int64, device='cuda:0')\n", "")
    facts = Facts(Signature(kind), None, Environment("3.12", sys.executable, "Linux", "2.13.0"))
    source = render_program(parse(text), facts)["repro.py"]
    ast.parse(source)
    return source


@pytest.mark.parametrize("calls", [1, 2])
def test_the_error_of_a_kernel_is_waited_for_after_each_call(calls: int) -> None:
    lines = written(Kind.RUNTIME_ERROR, calls=calls).splitlines()
    (at,) = [number for number, line in enumerate(lines) if "torch.cuda.synchronize()" in line]
    assert lines[at - 1].strip().startswith("outputs = function(")
    assert lines[at].startswith(" " * (4 * calls) + "torch.")


@pytest.mark.parametrize(("kind", "device"), [(Kind.RUNTIME_ERROR, "cpu"), (Kind.COMPILE_ERROR, "cuda:0")])
def test_nothing_is_waited_for_where_no_kernel_can_be_at_fault(kind: Kind, device: str) -> None:
    assert "synchronize" not in written(kind, device, calls=2)


def test_outputs_are_copied_before_a_cuda_graph_overwrites_them() -> None:
    assert COPY in written(Kind.ACCURACY, calls=2, mode="reduce-overhead")
    assert COPY in written(Kind.ACCURACY, calls=2, config={"inductor.triton.cudagraphs": True})
    assert COPY not in written(Kind.ACCURACY, calls=2)
    assert COPY not in written(Kind.ACCURACY, calls=1, mode="reduce-overhead")
