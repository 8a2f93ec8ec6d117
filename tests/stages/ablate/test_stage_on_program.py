"""Ablations of whole programs with a bug planted in one part: that part is named."""

import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import Capture, Environment
from repro_kit.diagnosis.cell import Ablation
from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.options.stages import AblateOptions
from repro_kit.stages.ablate import stage
from repro_kit.ui import SilentUi

PROGRAM = '''"""A planted bug."""
# repro-kit program 1
import torch

RECIPE = {'backend': 'aot_eager'}
%s
def graph(x, y):
    z = torch.nn.functional.silu(x) @ y
    return (z,)


def calls():
    return [(torch.ones(2, 3), torch.ones(3, 2))]
'''
#: Used while tracing, whatever the backend.
WHILE_TRACING = """
key = torch._C.DispatchKey.CompositeImplicitAutograd
torch.ops.aten.matmul.default.py_kernels[key] = lambda x, y: torch.mm(x, y) * 2
"""
#: In the table that Inductor and aot_eager_decomp_partition use.
IN_THE_TABLE = """
from torch._inductor import decomposition
decomposition.decompositions[torch.ops.aten.silu.default] = lambda x: x * 2
decomposition.fast_random_decomps.cache_clear()
"""


#: The code of a file of torch: what a program changes itself is the program's.
AS_TORCH = 'exec(compile({!r}, torch.__file__.replace("__init__", "planted"), "exec"))\n'


def ablated(place: Path, planted: str, backend: str, program: str = PROGRAM) -> Ablation:
    case = Case.create(place / "a.repro", Subject("script", ("a.py",), str(place), sys.executable), "2026-01-01")
    wrong = Signature(Kind.ACCURACY, difference="value", magnitude=1.0)
    case.write("capture/capture.json", Capture("program", signature=wrong))
    case.record(StageRecord("capture", "done"))
    case.write("env.json", Environment("3.11", sys.executable, "linux", "2.13.0"))
    text = (program % planted).replace("aot_eager", backend)
    (case.path / "capture" / "program.py").write_text(text, encoding="utf-8")
    stage.run(case, AblateOptions(preset="quick", stop_early=True, jobs=2), SilentUi())
    return case.read("ablation.json", Ablation)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("one_zygote")
@pytest.mark.parametrize(("planted", "backend"), [(WHILE_TRACING, "aot_eager"), (IN_THE_TABLE, "inductor")])
def test_a_wrong_decomposition_is_named(tmp_path: Path, planted: str, backend: str) -> None:
    found = ablated(tmp_path, AS_TORCH.format(planted), backend)
    assert (found.layer, found.cause) == (Layer.DECOMPOSITION, "decomposition"), found
    first = "aot_eager" if planted == WHILE_TRACING else "aot_eager_decomp_partition"
    assert next(cell.recipe.backend for cell in found.cells if cell.same and "contrast" not in cell.changed) == first


@pytest.mark.torch
@pytest.mark.slow
def test_a_decomposition_of_the_programs_own_is_the_programs(tmp_path: Path) -> None:
    found = ablated(tmp_path, WHILE_TRACING, "aot_eager")
    assert (found.layer, found.cause) == (Layer.USER, "own-change"), found
    assert (
        "gone without the kernels that the program gives to operators while they are traced: the compiler is not"
        in found.sentence
    )


#: The operator writes to its argument, or returns a view of its argument; the schema says nothing of that.
BREAKS_ITS_SCHEMA = """
library = torch.library.Library("mine", "DEF")
library.define("bump(Tensor x) -> Tensor")
library.impl("bump", lambda x: %s, "CompositeExplicitAutograd")
library.impl("bump", lambda x: torch.empty_like(x), "Meta")
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("one_zygote")
@pytest.mark.parametrize(
    ("kernel", "breach"),
    [
        ("x.add_(1) * 2", "writes to its argument 'x'"),
        ("x.view(-1).view(x.shape)", "returns a view of its argument 'x'"),
    ],
)
def test_an_operator_that_breaks_its_own_schema_is_named(tmp_path: Path, kernel: str, breach: str) -> None:
    program = PROGRAM.replace(
        "z = torch.nn.functional.silu(x) @ y", "a = x.sin()\n    z = torch.ops.mine.bump(a).mul_(3) + a"
    )
    found = ablated(tmp_path, BREAKS_ITS_SCHEMA % kernel, "aot_eager", program)
    assert (found.layer, found.cause) == (Layer.USER, "custom-operator"), found
    assert f"mine::bump {breach}, and its schema does not say so" in found.sentence
    assert "the failure is gone with the operator in no graph" in found.sentence
