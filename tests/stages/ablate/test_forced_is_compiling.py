"""A script that does another thing by intent when compiled: the answer to its question is held at one value."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import OBSERVATION, SOURCE_REDUCTION, Environment, Observation, Reduction
from repro_kit.diagnosis.causes import diagnose
from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.diagnosis.layer import EAGER_AT_TRUE, HELD_AT_FALSE, HELD_AT_TRUE, OWN_BRANCH, Diagnosis, first_failing
from repro_kit.failure.failure import Layer, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.options.stages import AblateOptions
from repro_kit.session.oracles import shared_oracles
from repro_kit.stages.ablate.cells.script_cells import OnReducedScript
from repro_kit.stages.ablate.special_contrasts import forced_is_compiling, held_at
from repro_kit.ui import SilentUi

ASKED = frozenset({"is_compiling", "is_dynamo_compiling"})


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        ("import torch\ny = 1 if torch.compiler.is_compiling() else 2", "y = 1 if False else 2"),
        ("import torch._dynamo\ny = torch._dynamo.external_utils.is_compiling()", "y = False"),
        ("import torch.compiler as c\ny = not c.is_dynamo_compiling()", "y = not False"),
        ("from torch import compiler\ny = compiler.is_compiling()", "y = False"),
        ("from torch.compiler import is_compiling as asked\ny = f(asked())", "y = f(False)"),
    ],
)
def test_every_way_to_ask_is_held(lines: str, held: str) -> None:
    text = held_at(lines, ASKED, answer=False)
    assert text is not None and text.splitlines()[1:] == [held]


@pytest.mark.parametrize(
    "lines",
    [
        "import torch\ny = torch.compile(f)",
        "import torch\ny = torch.compiler.is_exporting()",  # of another layer
        "import torch\ny = self.is_compiling()",  # the user's own
        "from mine import is_compiling\ny = is_compiling()",
    ],
)
def test_a_script_that_does_not_ask_torch_has_no_such_cell(lines: str) -> None:
    assert held_at(lines, ASKED, answer=False) is None


SCRIPT = """import torch

def original(x):
    return x + 1
%s
def f(x):
    if torch.compiler.is_compiling():
        return %s
    return x + 1
x = torch.ones(2)
a, b = (f(x), torch.compile(f, backend='eager')(x))
assert torch.allclose(a, b), 'the results differ'
"""
#: What Dynamo traces in the place of a function is wrong.
WRONG_IN_DYNAMO = """
@torch.compiler.substitute_in_graph(original, skip_signature_check=True)
def wrong(x):
    return x + 2
"""


def ablated(place: Path, text: str, *, fresh: bool = False) -> tuple[list[Cell], Diagnosis]:
    """The cells of a reduced script, and the diagnosis. `fresh`: it fails in no fork."""
    case = Case.create(place / "a.repro", Subject("script", ("a.py",), str(place), sys.executable), "2026-01-01")
    case.update(signature=Signature(Kind.ACCURACY, exceptions=("AssertionError",), message="the results differ"))
    case.store(OBSERVATION, Observation(("a.py",), 1, None, False, 1.0, 0, "python", "2.13.0", eager=Status.PASS))
    case.write("env.json", Environment("3.11", sys.executable, "linux", "2.13.0"))
    case.store(SOURCE_REDUCTION, Reduction(9, 9, 1, 1.0, verified=True, self_contained=True, fresh=fresh))
    case.record(StageRecord("minify", "done"))
    script = case.path / "minify" / "source" / "best.py"
    script.write_text(text)
    with shared_oracles():
        on = OnReducedScript(case, AblateOptions(jobs=1), SilentUi(), script)
        recipe = on.recipe()
        cells = on.run([CellPlan("no torch.compile", recipe, compiled=False), CellPlan("eager", recipe)])
        failing = first_failing(cells, recipe)
        assert failing is not None
        cells += forced_is_compiling(on, failing, ASKED)
    return cells, diagnose(cells, recipe)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("one_zygote")
def test_what_a_script_does_by_intent_is_nobodys_bug(tmp_path: Path) -> None:
    cells, found = ablated(tmp_path, SCRIPT % ("", "x"))
    assert [cell.changed.get("contrast") for cell in cells[2:]] == [HELD_AT_FALSE, HELD_AT_TRUE]
    assert (found.layer, found.cause) == (Layer.USER, OWN_BRANCH), found


#: The check asks for what the branch for eager alone leaves behind.
COUNTS = """import torch
seen = []
def f(x):
    if not torch.compiler.is_compiling():
        seen.append(1)
    return x + 1
torch.compile(f, backend='eager')(torch.ones(2))
assert seen, 'the results differ'
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("one_zygote")
def test_a_check_that_fails_in_eager_too_where_the_script_takes_the_compiled_branch_is_nobodys_bug(
    tmp_path: Path,
) -> None:
    cells, found = ablated(tmp_path, COUNTS)
    assert [(cell.compiled, cell.verdict.status) for cell in cells[2:]] == [
        (True, Status.PASS),
        (True, Status.FAIL),
        (False, Status.FAIL),
    ]
    assert (found.layer, found.cause) == (Layer.USER, OWN_BRANCH), found


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("one_zygote")
def test_a_branch_that_is_traced_wrongly_is_dynamos(tmp_path: Path) -> None:
    cells, found = ablated(tmp_path, SCRIPT % (WRONG_IN_DYNAMO, "original(x)"))
    assert [cell.verdict.status for cell in cells[2:]] == [Status.PASS, Status.FAIL, Status.PASS]
    assert found.layer is Layer.DYNAMO
    assert "held at False" in found.sentence


#: torch reads the variable when it is imported. In eager the check always passes.
SETS_EARLY = """import os
os.environ['TORCHDYNAMO_VERBOSE'] = '1'
import torch
def f(x):
    return x + (torch._dynamo.config.verbose and torch.compiler.is_compiling())
x = torch.ones(2)
assert torch.allclose(torch.compile(f, backend='eager')(x), x), 'the results differ'
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("one_zygote")
def test_variables_that_a_script_sets_before_it_imports_torch_are_there_when_torch_is_imported(
    tmp_path: Path,
) -> None:
    cells, found = ablated(tmp_path, SETS_EARLY)
    assert [cell.same for cell in cells[:2]] == [False, True], cells
    held = {cell.changed.get("contrast"): cell.same for cell in cells[2:]}
    assert held == {HELD_AT_FALSE: False, HELD_AT_TRUE: True, EAGER_AT_TRUE: True}, "each runs its own text"
    assert (found.layer, found.cause) == (Layer.USER, OWN_BRANCH), found


#: Inductor has chosen an instruction set before the script in a process that forks, and in none of the user's.
NEEDS_A_START = """import torch, torch._inductor.cpu_vec_isa
chosen = torch._inductor.cpu_vec_isa.valid_vec_isa_list.cache_info().currsize
def f(x):
    return x + (torch.compiler.is_compiling() and not chosen)
x = torch.ones(2)
assert torch.allclose(torch.compile(f, backend='eager')(x), x), 'the results differ'
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.usefixtures("one_zygote")
def test_a_script_that_fails_only_in_a_fresh_interpreter_is_ablated_there(tmp_path: Path) -> None:
    cells, found = ablated(tmp_path, NEEDS_A_START, fresh=True)
    assert [cell.same for cell in cells[:2]] == [False, True], cells
    assert (found.layer, found.cause) == (Layer.USER, OWN_BRANCH), found
