"""`repro.py` for programs that torch.export compiles, and for growth of compile time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.program_repro import render_program
from repro_kit.case.stage_results import Environment
from repro_kit.failure.failure import Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.graph import Program, parse

FACTS = Facts(Signature(Kind.DYNAMO_ERROR), None, Environment("3.11", sys.executable, "Linux", "2.13.0"))

PROGRAM = """
# repro-kit program 1
import torch
from torch import device, inf, nan

RECIPE = {'backend': 'BACKEND'}


def graph(x, weight, other):
    matmul = x @ weight
    add = matmul + other
    return (add,)


def calls():
    x = torch.randn(3, 4)
    torch._dynamo.mark_dynamic(x, 0)
    weight = torch.nn.Parameter(torch.randn(4, 4))
    other = torch.randn(ROWS, 4)
    return [(x, weight, other)]
"""


def written(backend: str, rows: int) -> str:
    return render_program(of(backend, rows), FACTS)["repro.py"]


def of(backend: str, rows: int) -> Program:
    return parse(PROGRAM.replace("BACKEND", backend).replace("ROWS", str(rows)))


def write(program: Program, place: Path, *, whole: bool = True) -> None:
    for name, text in render_program(program, FACTS, whole=whole).items():
        (place / name).write_text(text)


def test_parameters_belong_to_the_module_and_marks_become_dynamic_shapes() -> None:
    text = written("export-strict", 1)
    assert "def forward(self, x, other):\n        return f(x, self.weight, other)" in text
    assert "dynamic_shapes=({0: torch.export.Dim.DYNAMIC}, None), strict=True)" in text
    assert "mark_dynamic" not in text


def test_each_entry_has_its_own_call() -> None:
    assert "torch.export.draft_export(" in written("export-draft", 1)
    assert "exported.run_decompositions()" in written("export-decomposed", 1)
    precompiled = written("precompile", 1)
    assert "capture(module, x, other)\n        loaded = functools.partial(precompile.load(" in precompiled
    assert "import tempfile" in precompiled and not any(line.isspace() for line in precompiled.splitlines())
    packaged = written("aot-inductor", 1)
    assert "torch._inductor.aoti_load_package(package)(x, other)" in packaged


COUNTER = """
# repro-kit program 1
import torch

RECIPE = {'backend': 'export'}


def graph(x, seen):
    add_ = seen.add_(1)
    mul = x * seen
    return (mul, add_)


def calls():
    x = torch.ones(2)
    seen = torch.nn.Buffer(torch.zeros(1))
    return [(x, seen), (x, seen)]
"""


def test_a_module_keeps_its_buffers_and_only_what_it_returns_is_compared() -> None:
    text = render_program(parse(COUNTER), FACTS)["repro.py"]
    assert "def forward(self, x):\n        return f(x, self.seen)" in text
    assert '"inputs": [arg for arg in args if not isinstance(arg, torch.nn.Buffer)]' in text
    assert '"outputs": [out.clone()' in text


@pytest.mark.slow
@pytest.mark.torch
def test_an_exported_counter_counts_as_in_eager(oracle, python_in_forks, tmp_path) -> None:
    """torch.export is right here: neither repro.py nor a query may take the module's own copy for a difference."""
    write(parse(COUNTER), tmp_path)
    ended = subprocess.run([python_in_forks, "check.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "PASS\n"), ended.stderr
    (verdict,) = oracle.check([COUNTER], None)
    assert verdict.status is Status.PASS


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(("rows", "disabled", "status"), [(3, "0", 1), (3, "1", 0)])
def test_it_fails_where_the_dynamic_size_becomes_a_constant(python_in_forks, tmp_path, rows, disabled, status) -> None:
    write(of("export", rows), tmp_path)
    env = {**os.environ, "TORCH_COMPILE_DISABLE": disabled}
    command = [python_in_forks, "check.py"]
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stderr
    assert ("Constraints violated" in ended.stderr) == bool(status)


@pytest.mark.slow
def test_growth_under_fullgraph_passes_without_torch_compile(python_in_forks, tmp_path) -> None:
    text = PROGRAM.replace("'backend': 'BACKEND'", "'fullgraph': True, 'check': False, 'growth': 2.0")
    write(parse(text.replace("ROWS", "3")), tmp_path)
    environment = {**os.environ, "TORCH_COMPILE_DISABLE": "1"}
    ran = subprocess.run(
        [python_in_forks, str(tmp_path / "check.py")], capture_output=True, text=True, env=environment, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "PASS\n"), ran.stderr
